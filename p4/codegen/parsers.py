"""Parsers as C++ structs: apply() is a loop over the states."""

from __future__ import annotations

from p4.codegen.blocks import BlockWriter, Shared, anonymous_instances
from p4.codegen.code import cpp_name
from p4.codegen.layout import field_names, scalar_fields
from p4.codegen.schema import FieldInfo, StateInfo
from p4.codegen.tables import annotated_name, scalar_bits
from p4.lang import ir


class ParserWriter(BlockWriter):
    """One instance of a parser: apply() is a loop over its states."""

    context_argument = "c"

    def __init__(
        self, shared: Shared, parser: ir.Parser, ctor: dict[ir.Variable, ir.Expr], path: str, access: str
    ) -> None:
        super().__init__(shared, ctor, path, access)
        self.parser = parser
        self.value_sets: dict[ir.ValueSet, str] = {}

    def write(self, struct: str) -> bool:
        parser = self.parser
        self.used = {"apply", "c", "state", "steps"}
        for variable in parser.params:
            self.declare(variable)
        self.lay_out(parser)
        for local in parser.locals:
            if isinstance(local, ir.Instance):
                self.instance(local)
            elif isinstance(local, ir.ValueSet):
                self._value_set(local)
        for found in anonymous_instances(parser):
            self.inner_block(found)
        params = self.signature(parser.params)
        if self.shared.reads_what_it_writes:
            self.code.line("template <class Packet>")  # of bytes or of headers
            params = params.replace("PacketIn&", "Packet&", 1)
        states = {s.name: f"in_{cpp_name(s.name)}" for s in parser.states}
        self.fields.line(f"enum State {{ {', '.join(states.values())} }};")
        self.fields.line()
        with self.code.block(f"void apply({', '.join(['Context& c', *([params] if params else [])])})"):
            self.code.line("(void)c;")
            self.clear_outs(parser.params)
            for local in parser.locals:
                if isinstance(local, ir.VarDecl):
                    self.statement(local)
            self.code.line("State state = in_start;")
            loop = self.code.block("for (int steps = 0; steps < max_parser_steps; ++steps)")
            with loop:
                self.code.line("c.step();")
                with self.code.block("switch (state)"):
                    for s in parser.states:
                        self._state(s, states)
            self.code.line("throw ParserError{parser_timeout};")
        out = self.shared.code
        out.line()
        out.line(f"// parser {parser.name}: {self.path}")
        with out.block(f"struct {struct}", "};"):
            out.add(self.fields)
            out.add(self.code)
        return False

    def _value_set(self, value_set: ir.ValueSet) -> None:
        member = self.member(value_set.name)
        fields = [FieldInfo(name, scalar_bits(t)) for name, t in field_names(value_set.type)]
        size = sum((f.bits + 7) // 8 for f in fields)
        self.fields.line(f"ValueSet {member}{{{size}, {self.integer(value_set.size)}}};")
        name = annotated_name(value_set.annotations, self.path, value_set.name)
        self.register(
            "value_sets", member, StateInfo(name, self.integer(value_set.size), fields=tuple(fields))
        )
        self.value_sets[value_set] = member

    def _state(self, state: ir.State, states: dict[str, str]) -> None:
        with self.code.block(f"case {states[state.name]}:"):
            for item in state.body:
                self.statement(item)
            self._transition(state.transition, states)

    def _go(self, name: str, states: dict[str, str]) -> str:
        if name == "accept":
            return "return;"
        if name == "reject":
            return "throw ParserError{no_error};"
        return f"state = {states[name]}; continue;"

    def _transition(self, transition: ir.Transition, states: dict[str, str]) -> None:
        if not transition.exprs:
            self.code.line(self._go(transition.cases[0].state, states))
            return
        keys = []
        for expr in transition.exprs:
            name = self.temporary()
            self.code.line(f"const auto {name} = {self.expr(expr)};")
            keys.append((name, expr))
        for case in transition.cases:
            if len(case.matches) == 1 and case.matches[0].kind == "set":
                tests = [self._in_set(case.matches[0], keys)]
            else:
                tests = [
                    self._test(m, n) for m, (n, _) in zip(case.matches, keys, strict=True) if m.kind != "any"
                ]
            go = self._go(case.state, states)
            if not tests:
                self.code.line(go)
                return
            self.code.line(f"if ({' && '.join(tests)}) {{ {go} }}")
        self.code.line("throw ParserError{no_match};")

    def _test(self, match: ir.Match, key: str) -> str:
        assert match.value is not None
        value = self.expr(match.value)
        if match.kind == "set":
            return self._in_set(match, [(key, match.value)])
        if match.kind == "mask":
            assert match.second is not None
            mask = self.expr(match.second)
            return f"({key} & {mask}) == ({value} & {mask})"
        if match.kind == "range":
            assert match.second is not None
            return f"{key} >= {value} && {key} <= {self.expr(match.second)}"
        return f"{key} == {value}"

    def _in_set(self, match: ir.Match, keys: list[tuple[str, ir.Expr]]) -> str:
        assert isinstance(match.value, ir.ValueSetRef)
        value_set = match.value.value_set
        scalars = [s for _, s in scalar_fields(value_set.type, "")]
        puts, at = [], 0
        for (name, _), scalar in zip(keys, scalars, strict=True):
            bits = scalar_bits(scalar)
            puts.append(f"key_field<bit<{bits}>, {at}>(key, {self.as_bits(name, scalar)});")
            at += (bits + 7) // 8
        words = (at + 7) // 8
        found = f"{self.value_sets[value_set]}.contains(key)"
        return f"({{ uint64_t key[{words}] = {{}}; {' '.join(puts)} {found}; }})"
