"""Lark's parse tree to the nodes of `ast`. One method per grammar rule; the checks here are of shape only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Token as LarkToken
from lark import Tree

from p4.lang import ast
from p4.lang.diagnostics import Collector, Span
from p4.lang.names import Terminal
from p4.lang.tokens import STRING, parse_number

Child = Any  # a Tree, a LarkToken or None: Lark's trees are not typed
NO_ANNOTATIONS: tuple[ast.Annotation, ...] = ()


def _present(children: list[Child]) -> list[Child]:
    return [c for c in children if c is not None]


class TreeBuilder:
    """Builds one declaration at a time; `terminals` are the program's, which the tree's positions index."""

    def __init__(self, terminals: list[Terminal], sink: Collector) -> None:
        self.terminals = terminals
        self.sink = sink

    # ---- helpers

    def span(self, node: Child) -> Span:
        """From the node's first token to its last one, as far as they stand on the same line."""
        if isinstance(node, LarkToken):
            return self.terminals[node.line or 0].token.span
        if node.meta.empty:
            return self.terminals[0].token.span
        first = self.terminals[node.meta.line].token.span
        last = self.terminals[node.meta.end_line].token.span
        same = first.file is last.file and first.line == last.line and last.end_col >= first.end_col
        return first._replace(end_col=last.end_col) if same else first

    def annotations(self, tree: Child) -> tuple[ast.Annotation, ...]:
        out = []
        for token in tree.children:
            terminal = self.terminals[token.line]
            if terminal.token.text == "name" and [t.kind for t in terminal.body[1:-1]] != [STRING]:
                self.sink.error(terminal.token.span, "@name without a string", '@name("...")')
            out.append(ast.Annotation(terminal.token.span, terminal.token.text, terminal.body))
        return tuple(out)

    def _annotated(self, tree: Child) -> Any:
        """`annotations body`: the body built with its annotations."""
        notes, body = tree.children
        method: Callable[..., Any] | None = getattr(self, f"d_{body.data}", None)
        if method is not None:
            return method(body, self.annotations(notes))
        return self.statement(body, self.annotations(notes))

    declaration = _annotated

    def _type_params(self, tree: Child) -> tuple[str, ...]:
        return tuple(str(c) for c in _present(tree.children))

    def _names(self, tree: Child) -> tuple[tuple[str, Span], ...]:
        return tuple((str(c), self.span(c)) for c in _present(tree.children))

    # ---- declarations: d_<rule>(tree, annotations)

    def d_const_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ConstDecl:
        _, type_, name, _, value = tree.children
        return ast.ConstDecl(self.span(name), notes, str(name), self.type(type_), self.expr(value))

    def d_var_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.VarDecl:
        type_, name = tree.children[:2]
        init = self.expr(tree.children[-1]) if len(_present(tree.children)) > 2 else None
        return ast.VarDecl(self.span(name), notes, str(name), self.type(type_), init)

    d_for_var = d_var_decl

    def d_instance(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.InstanceDecl:
        construct, name = tree.children[:2]
        type_, args = construct.children
        initializer = None
        if len(tree.children) > 2:
            initializer = tuple(self._annotated(c) for c in tree.children[3:])
        return ast.InstanceDecl(
            self.span(name), notes, str(name), self.type(type_), self.args(args), initializer
        )

    def d_struct_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.StructDecl:
        kind, name, params, *fields = tree.children
        built = []
        for field in fields:
            field_notes, type_, field_name = field.children
            built.append(
                ast.FieldDecl(
                    self.span(field_name), self.annotations(field_notes), str(field_name), self.type(type_)
                )
            )
        return ast.StructDecl(
            self.span(name), notes, str(name), str(kind), self._type_params(params), tuple(built)
        )

    def d_enum_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.EnumDecl:
        _, underlying, name, members = tree.children
        built = []
        for member in _present(members.children):
            member_notes, member_name, *value = member.children
            value = _present(value)
            built.append(
                ast.EnumMember(
                    self.span(member_name),
                    self.annotations(member_notes),
                    str(member_name),
                    self.expr(value[-1]) if value else None,
                )
            )
        under = self.type(underlying) if underlying is not None else None
        return ast.EnumDecl(self.span(name), notes, str(name), under, tuple(built))

    def d_error_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.NamesDecl:
        word, names = tree.children
        return ast.NamesDecl(self.span(word), notes, str(word), self._names(names))

    d_match_kind_decl = d_error_decl

    def d_typedef_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.TypedefDecl:
        word, type_, name = tree.children
        return ast.TypedefDecl(self.span(name), notes, str(name), str(word) == "type", self.type(type_))

    def _prototype(
        self, tree: Child, notes: tuple[ast.Annotation, ...], is_abstract: bool = False
    ) -> ast.Prototype:
        returns, name, type_params, params = tree.children
        return ast.Prototype(
            self.span(name),
            notes,
            str(name),
            self.type(returns),
            self._type_params(type_params),
            self.params(params),
            is_abstract,
        )

    def d_method(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.Prototype:
        return self._prototype(tree.children[0], notes)

    def d_abstract_method(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.Prototype:
        return self._prototype(tree.children[1], notes, is_abstract=True)

    def d_constructor(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.Prototype:
        name, params = tree.children
        return ast.Prototype(self.span(name), notes, str(name), None, (), self.params(params))

    def d_extern_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ExternDecl:
        _, name, params, *members = tree.children
        methods = tuple(self._annotated(m) for m in members)
        return ast.ExternDecl(self.span(name), notes, str(name), self._type_params(params), methods)

    def d_extern_function(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.FunctionDecl:
        prototype = self._prototype(tree.children[1], notes)
        return ast.FunctionDecl(prototype.span, notes, prototype.name, prototype, None)

    def d_function_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.FunctionDecl:
        prototype = self._prototype(tree.children[0], notes)
        return ast.FunctionDecl(
            prototype.span, notes, prototype.name, prototype, self.block(tree.children[1])
        )

    def params(self, tree: Child) -> tuple[ast.Param, ...]:
        out = []
        for param in _present(tree.children):
            notes, direction, type_, name, *default = param.children
            default = _present(default)
            way = next((str(c) for c in direction.children if c is not None), "")
            out.append(
                ast.Param(
                    self.span(name),
                    self.annotations(notes),
                    str(name),
                    way,
                    self.type(type_),
                    self.expr(default[-1]) if default else None,
                )
            )
        return tuple(out)

    def d_parser_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ParserDecl:
        _, name, type_params, params, *rest = tree.children
        ctor: tuple[ast.Param, ...] = ()
        locals_: list[ast.Declaration] = []
        states: list[ast.StateDecl] | None = None
        if rest:
            ctor_tree, body = rest
            if _present(ctor_tree.children):
                ctor = self.params(ctor_tree.children[0])
            states = []
            for part in body.children:
                built = self._annotated(part)
                if isinstance(built, ast.StateDecl):
                    states.append(built)
                else:
                    locals_.append(built)
        return ast.ParserDecl(
            self.span(name),
            notes,
            str(name),
            self._type_params(type_params),
            self.params(params),
            ctor,
            tuple(locals_),
            None if states is None else tuple(states),
        )

    def d_value_set(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ValueSetDecl:
        _, type_, size, name = tree.children
        return ast.ValueSetDecl(self.span(name), notes, str(name), self.type(type_), self.expr(size))

    def d_state(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.StateDecl:
        _, name, *parts = tree.children
        transition: ast.GoTo | ast.Select | None = None
        items: list[ast.Node] = []
        for part in _present(parts):
            if part.data == "transition":
                transition = self._transition(part)
            else:
                items.append(self._annotated(part))
        return ast.StateDecl(self.span(name), notes, str(name), tuple(items), transition)

    def _transition(self, tree: Child) -> ast.GoTo | ast.Select:
        target = tree.children[1]
        if isinstance(target, LarkToken):
            return ast.GoTo(self.span(target), str(target))
        _, exprs, *cases = target.children
        built = tuple(
            ast.SelectCase(self.span(c.children[1]), self.expr(c.children[0]), str(c.children[1]))
            for c in cases
        )
        return ast.Select(self.span(target), tuple(self.expr(e) for e in _present(exprs.children)), built)

    def d_control_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ControlDecl:
        _, name, type_params, params, *rest = tree.children
        ctor: tuple[ast.Param, ...] = ()
        locals_: tuple[ast.Declaration, ...] = ()
        body = None
        if rest:
            ctor_tree, body_tree = rest
            if _present(ctor_tree.children):
                ctor = self.params(ctor_tree.children[0])
            *parts, _, _, block = body_tree.children
            locals_ = tuple(self._annotated(p) for p in parts)
            body = self.block(block)
        return ast.ControlDecl(
            self.span(name),
            notes,
            str(name),
            self._type_params(type_params),
            self.params(params),
            ctor,
            locals_,
            body,
        )

    def d_package_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.PackageDecl:
        _, name, type_params, params = tree.children
        return ast.PackageDecl(
            self.span(name), notes, str(name), self._type_params(type_params), self.params(params)
        )

    def d_action_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ActionDecl:
        _, name, params, body = tree.children
        return ast.ActionDecl(self.span(name), notes, str(name), self.params(params), self.block(body))

    # ---- tables

    def d_table_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.TableDecl:
        _, name, *properties = tree.children
        return ast.TableDecl(self.span(name), notes, str(name), tuple(self._property(p) for p in properties))

    def _property(self, tree: Child) -> ast.Property:
        notes, body = self.annotations(tree.children[0]), tree.children[1]
        if body.data == "plain_property":
            const, name, _, value = body.children
            return ast.Property(self.span(name), notes, str(name), const is not None, self.expr(value))
        if body.data == "key_property":
            word, _, *elements = body.children
            keys = tuple(
                ast.KeyElement(
                    self.span(e.children[0]),
                    self.expr(e.children[0]),
                    str(e.children[1]),
                    self.annotations(e.children[2]),
                )
                for e in elements
            )
            return ast.Property(self.span(word), notes, "key", False, keys)
        if body.data == "actions_property":
            word, _, *refs = body.children
            actions = tuple(
                ast.ActionRef(
                    self.span(r.children[1]), self.expr(r.children[1]), self.annotations(r.children[0])
                )
                for r in refs
            )
            return ast.Property(self.span(word), notes, "actions", False, actions)
        const, word, _, *rows = body.children
        entries = []
        for row in rows:
            _, row_const, priority, keyset, action, notes_tree = row.children
            entries.append(
                ast.Entry(
                    self.span(keyset),
                    row_const is not None,
                    self.expr(priority.children[-1]) if priority is not None else None,
                    self.expr(keyset),
                    self.expr(action),
                    self.annotations(notes_tree),
                )
            )
        return ast.Property(self.span(word), notes, "entries", const is not None, tuple(entries))

    # ---- types

    def type(self, tree: Child) -> ast.TypeNode:
        span = self.span(tree)
        match tree.data:
            case "base_type":
                return ast.BaseType(span, str(tree.children[0]))
            case "int_type" | "bits_type":
                kind, width = tree.children
                if width is not None:
                    return ast.BitsType(span, str(kind), self.expr(width))
                if str(kind) == "int":
                    return ast.BaseType(span, "int")
                one = ast.IntLiteral(span, 1, None, False)
                if str(kind) == "varbit":
                    self.sink.error(span, "varbit needs a maximum width", "varbit<N>")
                return ast.BitsType(span, str(kind), one)
            case "named_type":
                return ast.NamedType(span, str(tree.children[0]))
            case "global_type":
                return ast.NamedType(span, str(tree.children[0]), is_global=True)
            case "special_type":
                base = self.type(tree.children[0])
                assert isinstance(base, ast.NamedType)
                return ast.SpecializedType(span, base, self.type_args(tree.children[1]))
            case "tuple_type":
                return ast.TupleType(span, str(tree.children[0]), self.type_args(tree.children[1]))
            case "stack_type":
                return ast.StackType(span, self.type(tree.children[0]), self.expr(tree.children[1]))
            case "dont_care_type":
                return ast.DontCareType(span)
        raise AssertionError(f"no type rule {tree.data}")

    def type_args(self, tree: Child) -> tuple[ast.TypeNode, ...]:
        return tuple(self.type(c) for c in _present(tree.children))

    # ---- statements

    def block(self, tree: Child, notes: tuple[ast.Annotation, ...] = NO_ANNOTATIONS) -> ast.Block:
        return ast.Block(self.span(tree), tuple(self._annotated(c) for c in tree.children), notes)

    def statement(self, tree: Child, notes: tuple[ast.Annotation, ...] = NO_ANNOTATIONS) -> ast.Statement:
        span = self.span(tree)
        children = tree.children
        match tree.data:
            case "block":
                return self.block(tree, notes)
            case "statement" | "item_body" | "simple_statement":
                return self.statement(children[0], notes)
            case "assign":
                target, op, value = children
                return ast.Assign(self.span(op), self.expr(target), str(op)[:-1], self.expr(value))
            case "call_statement":
                return ast.CallStatement(span, self.expr(children[0]))
            case "if":
                rest = _present(children[3:])
                orelse = self.statement(rest[-1]) if rest else None
                return ast.If(span, self.expr(children[1]), self.statement(children[2]), orelse)
            case "nested":
                return self.statement(children[1], self.annotations(children[0]))
            case "switch":
                cases = []
                for case in children[2:]:
                    label, block = case.children
                    cases.append(
                        ast.SwitchCase(
                            self.span(label), self.expr(label), None if block is None else self.block(block)
                        )
                    )
                return ast.Switch(span, self.expr(children[1]), tuple(cases))
            case "exit":
                return ast.Exit(span)
            case "return":
                return ast.Return(span, None if children[1] is None else self.expr(children[1]))
            case "empty":
                return ast.Empty(span)
            case "break":
                return ast.Break(span)
            case "continue":
                return ast.Continue(span)
            case "for":
                _, inits, condition, updates, body = children
                return ast.For(
                    span,
                    tuple(self._annotated(i) for i in _present(inits.children)),
                    self.expr(condition),
                    tuple(self.statement(u) for u in _present(updates.children)),
                    self.statement(body),
                )
            case "for_in":
                _, _, type_, name, _, first, last, body = children
                end = None if last is None else self.expr(last)
                return ast.ForIn(
                    span, self.type(type_), str(name), self.expr(first), end, self.statement(body)
                )
        raise AssertionError(f"no statement rule {tree.data}")

    # ---- expressions

    def args(self, tree: Child) -> tuple[ast.Arg, ...]:
        out = []
        for child in _present(tree.children):
            span = self.span(child)
            if isinstance(child, Tree) and child.data == "named_arg":
                out.append(ast.Arg(span, str(child.children[0]), self.expr(child.children[2])))
            elif isinstance(child, Tree) and child.data == "skipped_arg":
                out.append(ast.Arg(span, str(child.children[0]) if len(child.children) > 2 else None, None))
            else:
                out.append(ast.Arg(span, None, self.expr(child)))
        return tuple(out)

    def expr(self, tree: Child) -> ast.Expr:
        # A long chain of binary operators leans left: walk down it in a loop, not by recursion.
        chain = []
        while tree.data == "binary":
            chain.append(tree)
            tree = tree.children[0]
        result = self._operand(tree)
        for outer in reversed(chain):
            result = ast.Binary(
                self.span(outer), str(outer.children[1]), result, self.expr(outer.children[2])
            )
        return result

    def _operand(self, tree: Child) -> ast.Expr:
        span = self.span(tree)
        children = tree.children
        match tree.data:
            case "int_literal":
                return ast.IntLiteral(span, *parse_number(str(children[0])))
            case "string_literal":
                return ast.StringLiteral(span, str(children[0])[1:-1])
            case "true" | "false":
                return ast.BoolLiteral(span, tree.data == "true")
            case "dots":
                return ast.DefaultExpr(span)
            case "variable" | "global_variable":
                return ast.Name(span, str(children[0]), tree.data == "global_variable")
            case "parenthesised":
                return self.expr(children[0])
            case "member":
                return ast.Member(span, self.expr(children[0]), str(children[1]))
            case "type_member":
                base = self.type(children[0])
                return ast.Member(span, ast.TypeExpr(base.span, base), str(children[1]))
            case "index":
                return ast.Index(span, self.expr(children[0]), self.expr(children[1]))
            case "slice" | "slice_up":
                base_expr, high, low = (self.expr(c) for c in children)
                return ast.Slice(span, base_expr, high, low, tree.data == "slice_up")
            case "unary":
                return ast.Unary(span, str(children[0]), self.expr(children[1]))
            case "cast":
                return ast.Cast(span, self.type(children[0]), self.expr(children[1]))
            case "ternary":
                condition, yes, no = (self.expr(c) for c in children)
                return ast.Ternary(span, condition, yes, no)
            case "call":
                return ast.Call(span, self.expr(children[0]), (), self.args(children[1]))
            case "generic_call":
                return ast.Call(
                    span, self.expr(children[0]), self.type_args(children[1]), self.args(children[2])
                )
            case "construct":
                type_ = self.type(children[0])
                return ast.Call(span, ast.TypeExpr(type_.span, type_), (), self.args(children[1]))
            case "list":
                return ast.ListExpr(span, tuple(self.expr(c) for c in _present(children[0].children)))
            case "record":
                return self._record(span, children[0])
            case "invalid":
                return ast.InvalidExpr(span)
            case "mask_set":
                return ast.MaskSet(span, self.expr(children[0]), self.expr(children[1]))
            case "range_set":
                return ast.RangeSet(span, self.expr(children[0]), self.expr(children[1]))
            case "default_set" | "dont_care_set":
                return ast.AnySet(span, tree.data == "default_set")
            case "tuple_set":
                return ast.TupleSet(span, tuple(self.expr(c) for c in children))
        raise AssertionError(f"no expression rule {tree.data}")

    def _record(self, span: Span, items: Child) -> ast.RecordExpr:
        fields: list[tuple[str, ast.Expr]] = []
        has_default = False
        for child in _present(items.children):
            if isinstance(child, Tree):
                fields.append((str(child.children[0]), self.expr(child.children[2])))
            else:
                has_default = True
        return ast.RecordExpr(span, tuple(fields), has_default)
