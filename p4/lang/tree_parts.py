"""Parse tree to syntax tree: types, statements and expressions. builder.py has the declarations."""

from __future__ import annotations

from typing import Any

from lark import Token as LarkToken
from lark import Tree

from p4.lang import ast
from p4.lang.diagnostics import Collector, Span
from p4.lang.names import Terminal
from p4.lang.tokens import STRING, parse_number

Child = Any  # a Tree, a LarkToken or None: Lark's trees are not typed
NO_ANNOTATIONS: tuple[ast.Annotation, ...] = ()


def present(children: list[Child]) -> list[Child]:
    return [c for c in children if c is not None]


class PartBuilder:
    """`terminals` are the program's, which the tree's positions index."""

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

    def annotated(self, tree: Child) -> Any:
        """`annotations body`: the body built with its annotations. Defined by the layer above."""
        raise NotImplementedError

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
        return tuple(self.type(c) for c in present(tree.children))

    # ---- statements

    def block(self, tree: Child, notes: tuple[ast.Annotation, ...] = NO_ANNOTATIONS) -> ast.Block:
        return ast.Block(self.span(tree), tuple(self.annotated(c) for c in tree.children), notes)

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
                rest = present(children[3:])
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
                    tuple(self.annotated(i) for i in present(inits.children)),
                    self.expr(condition),
                    tuple(self.statement(u) for u in present(updates.children)),
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
        for child in present(tree.children):
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
                return ast.ListExpr(span, tuple(self.expr(c) for c in present(children[0].children)))
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
        for child in present(items.children):
            if isinstance(child, Tree):
                fields.append((str(child.children[0]), self.expr(child.children[2])))
            else:
                has_default = True
        return ast.RecordExpr(span, tuple(fields), has_default)
