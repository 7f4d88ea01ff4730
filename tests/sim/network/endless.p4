// A program that never ends with a packet, in one of four ways, which the packet's length chooses. Others go to port 1.
#include <core.p4>
#include <v1model.p4>

struct meta_t { }
struct headers_t { }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t standard) {
    state start {
        transition select(standard.packet_length) {
            142: again;
            default: accept;
        }
    }
    state again {
        transition select(p.lookahead<bit<8>>()) {
            0xee: accept;
            default: again;
        }
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (standard.packet_length == 242) {
            resubmit_preserving_field_list(8w0);
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t standard) {
    apply {
        if (standard.packet_length == 342) {
            recirculate_preserving_field_list(8w0);
        }
        if (standard.packet_length == 442) {
            clone(CloneType.E2E, 32w1);
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
