"""Tables: keys, actions, entries, the default action, and the other properties."""

from __future__ import annotations

from p4.lang import ast, ir
from p4.lang import types as ty
from p4.lang.checker.conversions import base_of
from p4.lang.checker.matches import MatchChecker
from p4.lang.diagnostics import Span

KNOWN_MATCH_KINDS = ("exact", "lpm", "ternary", "range", "optional", "selector")


def source_text(node: ast.Expr) -> str:
    """An expression as a user would write it: the control plane's name of an unnamed key."""
    match node:
        case ast.Name():
            return node.name
        case ast.Member():
            if isinstance(node.base, ast.TypeExpr):
                return f"{type_text(node.base.type)}.{node.name}"
            return f"{source_text(node.base)}.{node.name}"
        case ast.Index():
            return f"{source_text(node.base)}[{source_text(node.index)}]"
        case ast.Slice():
            sign = " +: " if node.is_width else ":"
            return f"{source_text(node.base)}[{source_text(node.high)}{sign}{source_text(node.low)}]"
        case ast.IntLiteral():
            return str(node.value)
        case ast.Call():
            return (
                f"{source_text(node.callee)}({', '.join(source_text(a.value) for a in node.args if a.value)})"
            )
        case ast.Binary():
            return f"{source_text(node.left)} {node.op} {source_text(node.right)}"
        case ast.Unary():
            return f"{node.op}{source_text(node.operand)}"
        case ast.Cast():
            return f"({type_text(node.type)}){source_text(node.operand)}"
        case ast.TypeExpr():
            return type_text(node.type)
    return "key"


def type_text(node: ast.TypeNode) -> str:
    match node:
        case ast.NamedType() | ast.BaseType():
            return node.name
        case ast.BitsType():
            return f"{node.kind}<{source_text(node.width)}>"
    return "type"


def _has_a_name(node: ast.Expr) -> bool:
    """Whether a key's text can be its name for the control plane: fields and parts of them."""
    match node:
        case ast.Name() | ast.IntLiteral() | ast.TypeExpr():
            return True
        case ast.Member():
            return _has_a_name(node.base)
        case ast.Index():
            return _has_a_name(node.base) and _has_a_name(node.index)
        case ast.Slice():
            return _has_a_name(node.base)
        case ast.Call():
            return isinstance(node.callee, ast.Member) and node.callee.name == "isValid"
        case ast.Binary():
            return node.op == "&" and _has_a_name(node.left)
    return False


def _alike(a: ir.Expr, b: ir.Expr) -> bool:
    """Whether two expressions are written the same."""
    if type(a) is not type(b):
        return False
    match a, b:
        case ir.Const(), ir.Const():
            return a.value == b.value
        case ir.Var(), ir.Var():
            return a.variable is b.variable
        case ir.Field(), ir.Field():
            return a.name == b.name and _alike(a.base, b.base)
        case ir.Item(), ir.Item():
            return _alike(a.base, b.base) and _alike(a.index, b.index)
        case ir.Slice(), ir.Slice():
            return (a.high, a.low) == (b.high, b.low) and _alike(a.base, b.base)
        case ir.Cast(), ir.Cast():
            return a.type == b.type and _alike(a.operand, b.operand)
        case ir.Aggregate(), ir.Aggregate():
            return len(a.items) == len(b.items) and all(map(_alike, a.items, b.items))
    return True


class TableChecker(MatchChecker):
    """`table` checks one table and declares it."""

    def table(self, node: ast.TableDecl) -> ir.Table:
        properties: dict[str, ast.Property] = {}
        for prop in node.properties:
            if prop.name in properties:
                self.sink.error(prop.span, f"property '{prop.name}' of table '{node.name}' twice")
            properties.setdefault(prop.name, prop)
        if "entries" in properties and "key" in [*properties][[*properties].index("entries") :]:
            self.sink.error(properties["entries"].span, "entries before the table's key", "key first")
        keys = self._keys(properties.get("key"))
        actions = self._actions(node, properties.get("actions"))
        table = ir.Table(
            node.name, keys, actions, None, False, (), False, None, {}, node.span, node.annotations
        )
        default = properties.get("default_action")
        if default is not None:
            assert isinstance(default.value, ast.Expr)
            table.default = self._use(default.value, actions, "default_action", allow_constant_only=True)
            table.default_is_const = default.is_const
        else:
            implicit = next((a.action for a in actions if a.action.name == "NoAction"), None)
            table.default = ir.ActionUse(implicit, ()) if implicit else None
        if "size" in properties:
            size = properties["size"].value
            assert isinstance(size, ast.Expr)
            table.size = self._table_size(size)
        entries = properties.get("entries")
        if entries is not None:
            table.entries_are_const = entries.is_const
            table.entries = self._entries(entries, keys, actions)
        for name, prop in properties.items():
            if name not in ("key", "actions", "entries", "default_action", "size"):
                assert isinstance(prop.value, ast.Expr)
                table.properties[name] = self._other_property(name, prop.value)
        self.declare(node.name, table, node.span)
        return table

    def _other_property(self, name: str, node: ast.Expr) -> ir.Expr:
        value = self.expr(node)
        if name == "largest_priority_wins" and not (isinstance(value, ir.Const) and value.type == ty.BOOL):
            self.sink.error(node.span, "largest_priority_wins", "true or false")
        elif name == "priority_delta":
            delta = value.value if isinstance(value, ir.Const) else 0
            if not isinstance(delta, int) or isinstance(delta, bool) or delta <= 0:
                self.sink.error(node.span, "priority_delta", "a constant above 0")
        return value

    def _table_size(self, node: ast.Expr) -> ir.Expr | None:
        value = self.expr(node)
        if isinstance(value.type, ty.Bits):
            pass
        elif value.type not in (ty.INT, ty.UNKNOWN):
            self.sink.error(node.span, f"a table size of type {value.type}", "an integer")
            return None
        if not self.is_compile_time(value):
            self.sink.error(node.span, "a table size known only at run time", "a constant")
            return None
        if isinstance(value, ir.Const) and int(value.value) < 0:
            self.sink.error(node.span, f"a table size of {value.value}", "a size >= 0")
        return value

    def _keys(self, prop: ast.Property | None) -> tuple[ir.Key, ...]:
        if prop is None:
            return ()
        assert isinstance(prop.value, tuple)
        keys = []
        for element in prop.value:
            assert isinstance(element, ast.KeyElement)
            with self.scope("apply"):  # a key may apply another table
                value = self.expr(element.expr)
            if element.match_kind not in self.match_kinds:
                self.sink.error(
                    element.span, f"unknown match kind '{element.match_kind}'", ", ".join(self.match_kinds)
                )
            elif element.match_kind not in KNOWN_MATCH_KINDS:
                self.sink.error(
                    element.span,
                    f"match kind '{element.match_kind}' is not supported",
                    ", ".join(KNOWN_MATCH_KINDS),
                )
            if not _has_a_name(element.expr) and not any(a.name == "name" for a in element.annotations):
                self.sink.error(
                    element.span, "a key that is not a field has no name", '@name("...") behind it'
                )
            type_ = base_of(value.type)
            scalar = isinstance(type_, (ty.Bits, ty.EnumType)) or type_ in (ty.BOOL, ty.ERROR, ty.UNKNOWN)
            if not scalar:
                self.sink.error(
                    element.span, f"a key of type {value.type}", "bit<>, int<>, bool, an enum or error"
                )
                value = ir.Default(ty.UNKNOWN, element.span)
            keys.append(
                ir.Key(
                    value, element.match_kind, source_text(element.expr), element.annotations, element.span
                )
            )
        if sum(k.match_kind == "lpm" for k in keys) > 1:
            self.sink.error(prop.span, "two lpm keys in one table", "one; make the others ternary")
        return tuple(keys)

    def _actions(self, node: ast.TableDecl, prop: ast.Property | None) -> tuple[ir.TableAction, ...]:
        if prop is None:
            self.sink.error(node.span, f"table '{node.name}' has no actions", "actions = { ... }")
            return ()
        assert isinstance(prop.value, tuple)
        out: list[ir.TableAction] = []
        for ref in prop.value:
            assert isinstance(ref, ast.ActionRef)
            call = ref.expr
            args: tuple[ast.Arg, ...] = ()
            if isinstance(call, ast.Call):
                args, call = call.args, call.callee
            action = self._action_named(call)
            if action is None:
                continue
            if any(a.action is action for a in out):
                self.sink.error(ref.span, f"action '{action.name}' is listed twice")
                continue
            directed = tuple(p for p in action.signature.params if p.direction)
            bound = self.bind_call(ty.Signature(action.name, (), directed, ty.VOID), (), args, ref.span)
            if bound is not None:
                values = tuple(a.value for a in bound[1] if a.value is not None)
                out.append(ir.TableAction(action, values, ref.annotations))
        return tuple(out)

    def _action_named(self, node: ast.Expr) -> ir.Action | None:
        if isinstance(node, ast.Name):
            symbol = self.lookup(node.name, node.is_global)
            if isinstance(symbol, ir.Action):
                return symbol
            if symbol is None:
                self.sink.error(node.span, f"unknown action '{node.name}'", self.suggest(node.name))
                return None
            self.sink.error(node.span, f"'{node.name}' is {self.describe(symbol)}, not an action")
            return None
        self.sink.error(node.span, "not an action's name")
        return None

    def _use(
        self,
        node: ast.Expr,
        actions: tuple[ir.TableAction, ...],
        what: str,
        *,
        allow_constant_only: bool = False,
    ) -> ir.ActionUse | None:
        """``action(data)`` as a default or in an entry: one of the table's actions, its data constant."""
        call: ast.Expr = node
        args: tuple[ast.Arg, ...] = ()
        if isinstance(node, ast.Call):
            call, args = node.callee, node.args
        action = self._action_named(call)
        if action is None:
            return None
        listed = next((a for a in actions if a.action is action), None)
        if listed is None:
            self.sink.error(
                call.span,
                f"{what}: action '{action.name}' is not one of the table's actions",
                ", ".join(a.action.name for a in actions),
            )
            return None
        limit = "tableonly" if allow_constant_only else "defaultonly"
        if any(a.name == limit for a in listed.annotations):
            self.sink.error(call.span, f"{what}: action '{action.name}' is @{limit}")
        params = action.signature.params
        if len(args) == len(params) and listed.bound:
            # The directional arguments may be repeated as the actions list has them.
            for arg, bound_to in zip(args, listed.bound, strict=False):
                if arg.value is not None and not _alike(self.expr(arg.value, bound_to.type), bound_to):
                    self.sink.error(arg.span, f"{what}: another argument than in the actions list")
            args = args[len(listed.bound) :]
        data = tuple(p for p in params if not p.direction)
        bound = self.bind_call(
            ty.Signature(action.name, (), data, ty.VOID), (), args, node.span, constant=True
        )
        if bound is None:
            return None
        return ir.ActionUse(action, tuple(a.value for a in bound[1] if a.value is not None))

    # ---- entries

    def _entries(
        self, prop: ast.Property, keys: tuple[ir.Key, ...], actions: tuple[ir.TableAction, ...]
    ) -> tuple[ir.Entry, ...]:
        assert isinstance(prop.value, tuple)
        if not keys and prop.value:
            self.sink.error(prop.span, "entries of a table without a key")
            return ()
        out = []
        self._check_priorities(prop.value, keys)
        for node in prop.value:
            assert isinstance(node, ast.Entry)
            matches = self.keyset(node.keyset, [k.expr.type for k in keys], "this entry")
            use = self._use(node.action, actions, "entry")
            priority = self.constant_int(node.priority, "a priority") if node.priority is not None else None
            if matches is None or use is None:
                continue
            for key, match in zip(keys, matches, strict=True):
                self._check_match(key, match)
            out.append(
                ir.Entry(matches, use, priority, node.is_const or prop.is_const, node.span, node.annotations)
            )
        return tuple(out)

    def _check_priorities(self, entries: tuple[ast.Node, ...], keys: tuple[ir.Key, ...]) -> None:
        """Only where several entries may match, and from the first entry on (spec 14.2.1.4)."""
        ordered = any(k.match_kind in ("ternary", "range", "optional") for k in keys)
        given = [e for e in entries if isinstance(e, ast.Entry) and e.priority is not None]
        if given and not ordered:
            self.sink.error(given[0].span, "a priority where at most one entry matches", "no priority")
        elif given and given[0] is not entries[0]:
            self.sink.error(
                entries[0].span, "the first entry has no priority, a later one has", "priority = N:"
            )

    def _check_match(self, key: ir.Key, match: ir.Match) -> None:
        """Whether this kind of set fits the key's match kind, and is constant."""
        fits = {
            "exact": ("exact",),
            "lpm": ("exact", "mask", "any"),
            "ternary": ("exact", "mask", "any"),
            "range": ("exact", "range", "any"),
            "optional": ("exact", "any"),
            "selector": ("exact", "mask", "any"),
        }
        allowed = fits.get(key.match_kind, ())
        shown = {
            "mask": "a mask (&&&)",
            "range": "a range (..)",
            "any": "'_'",
            "exact": "a value",
            "set": "a value set",
        }
        if match.kind not in allowed and allowed:
            self.sink.error(
                match.span,
                f"{shown[match.kind]} for a key of kind {key.match_kind}",
                " or ".join(shown[a] for a in allowed),
            )
        for part in (match.value, match.second):
            if part is not None and not self.is_compile_time(part):
                self.sink.error(part.span, "a value known only at run time in an entry", "a constant")
        if key.match_kind == "lpm" and match.kind == "mask":
            self._check_prefix(match, match.span)

    def _check_prefix(self, match: ir.Match, span: Span) -> None:
        mask = match.second
        if isinstance(mask, ir.Const) and isinstance(mask.type, ty.Bits):
            ones = (1 << mask.type.width) - 1
            hole = ~int(mask.value) & ones
            if hole & (hole + 1):
                self.sink.error(
                    span, f"mask {int(mask.value):#x} of an lpm key is not a prefix", "ones, then zeros"
                )
