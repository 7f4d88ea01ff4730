# ruff: noqa: E501 - the frame stays on one line a block
"""A TNA program around the lines under test."""

from __future__ import annotations

from p4.lang import check_text
from p4.tofino import TOFINO, Chip, Report, check_fit

FRAME = """#include <tna.p4>
#define META_IN in ingress_intrinsic_metadata_t ig, in ingress_intrinsic_metadata_from_parser_t prsr
#define META_OUT inout ingress_intrinsic_metadata_for_deparser_t dprsr, inout ingress_intrinsic_metadata_for_tm_t tm
header h_t { %(fields)s }
header wide_t { bit<32> w0; bit<32> w1; bit<32> w2; bit<32> w3; bit<32> w4; bit<32> w5; bit<32> w6; bit<32> w7; }
%(types)s
struct headers_t { h_t h; wide_t wide; %(headers)s }
struct meta_t { bit<32> a; bit<32> b; bit<32> c; bit<32> d; bit<16> s; bit<8> t; bit<1> f; bool e; %(meta)s }
struct egress_meta_t { bit<32> x; }
parser IngressParser(packet_in p, out headers_t hdr, out meta_t m, out ingress_intrinsic_metadata_t ig) {
    %(parser_locals)s
    state start { p.extract(ig); p.advance(PORT_METADATA_SIZE); p.extract(hdr.h); %(parser)s }
    %(states)s
}
control In(inout headers_t hdr, inout meta_t m, META_IN, META_OUT) {
%(locals)s
    apply {
%(ingress)s
    }
}
control IngressDeparser(packet_out p, inout headers_t hdr, in meta_t m,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr, in ingress_intrinsic_metadata_t ig) {
    %(deparser_locals)s
    apply { %(deparser)s p.emit(hdr); }
}
parser EgressParser(packet_in p, out headers_t hdr, out egress_meta_t m, out egress_intrinsic_metadata_t eg) {
    state start { p.extract(eg); %(egress_parser)s }
}
control Eg(inout headers_t hdr, inout egress_meta_t m, in egress_intrinsic_metadata_t eg,
           in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
           inout egress_intrinsic_metadata_for_output_port_t oport) {
%(egress_locals)s
    apply { %(egress)s }
}
control EgressDeparser(packet_out p, inout headers_t hdr, in egress_meta_t m,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    %(egress_deparser_locals)s
    apply { %(egress_deparser)s p.emit(hdr); }
}
Pipeline(IngressParser(), In(), IngressDeparser(), EgressParser(), Eg(), EgressDeparser()) pipe;
Switch(pipe) main;
"""
DEFAULTS = {
    "fields": "bit<32> x; bit<32> y; bit<32> z; bit<8> k;",
    "parser": "transition accept;",
    "egress_parser": "transition accept;",
    **dict.fromkeys(
        ("types", "headers", "meta", "parser_locals", "states", "locals", "ingress", "deparser_locals", "deparser",
         "egress_locals", "egress", "egress_deparser_locals", "egress_deparser"), ""
    ),
}  # fmt: skip


def tna(**parts: str) -> str:
    """A TNA program with these parts, the others empty."""
    return FRAME % {**DEFAULTS, **parts}


def fit(chip: Chip = TOFINO, **parts: str) -> Report:
    return check_fit(check_text(tna(**parts)), chip)


def problems(report: Report) -> list[tuple[str, str]]:
    """(source line, message) of each."""
    out = []
    for problem in report.problems:
        assert problem.span is not None
        out.append((problem.span.file.lines[problem.span.line - 1].strip(), problem.message))
    return out


def used(report: Report, name: str) -> float:
    [row] = [r for r in report.rows if r.name == name]
    return row.used
