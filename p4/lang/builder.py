"""Lark's parse tree to the nodes of `ast`. One method per grammar rule; the checks here are of shape only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Token as LarkToken

from p4.lang import ast
from p4.lang.diagnostics import Span
from p4.lang.tree_parts import Child, PartBuilder, present


class TreeBuilder(PartBuilder):
    """Builds one declaration at a time."""

    def annotated(self, tree: Child) -> Any:
        """`annotations body`: the body built with its annotations."""
        notes, body = tree.children
        method: Callable[..., Any] | None = getattr(self, f"d_{body.data}", None)
        if method is not None:
            return method(body, self.annotations(notes))
        return self.statement(body, self.annotations(notes))

    declaration = annotated

    def _type_params(self, tree: Child) -> tuple[str, ...]:
        return tuple(str(c) for c in present(tree.children))

    def _names(self, tree: Child) -> tuple[tuple[str, Span], ...]:
        return tuple((str(c), self.span(c)) for c in present(tree.children))

    # ---- declarations: d_<rule>(tree, annotations)

    def d_const_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ConstDecl:
        _, type_, name, _, value = tree.children
        return ast.ConstDecl(self.span(name), notes, str(name), self.type(type_), self.expr(value))

    def d_var_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.VarDecl:
        type_, name = tree.children[:2]
        init = self.expr(tree.children[-1]) if len(present(tree.children)) > 2 else None
        return ast.VarDecl(self.span(name), notes, str(name), self.type(type_), init)

    d_for_var = d_var_decl

    def d_instance(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.InstanceDecl:
        construct, name = tree.children[:2]
        type_, args = construct.children
        initializer = None
        if len(tree.children) > 2:
            initializer = tuple(self.annotated(c) for c in tree.children[3:])
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
        for member in present(members.children):
            member_notes, member_name, *value = member.children
            value = present(value)
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
        methods = tuple(self.annotated(m) for m in members)
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
        for param in present(tree.children):
            notes, direction, type_, name, *default = param.children
            default = present(default)
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
            if present(ctor_tree.children):
                ctor = self.params(ctor_tree.children[0])
            states = []
            for part in body.children:
                built = self.annotated(part)
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
        for part in present(parts):
            if part.data == "transition":
                transition = self._transition(part)
            else:
                items.append(self.annotated(part))
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
        return ast.Select(self.span(target), tuple(self.expr(e) for e in present(exprs.children)), built)

    def d_control_decl(self, tree: Child, notes: tuple[ast.Annotation, ...]) -> ast.ControlDecl:
        _, name, type_params, params, *rest = tree.children
        ctor: tuple[ast.Param, ...] = ()
        locals_: tuple[ast.Declaration, ...] = ()
        body = None
        if rest:
            ctor_tree, body_tree = rest
            if present(ctor_tree.children):
                ctor = self.params(ctor_tree.children[0])
            *parts, _, _, block = body_tree.children
            locals_ = tuple(self.annotated(p) for p in parts)
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
