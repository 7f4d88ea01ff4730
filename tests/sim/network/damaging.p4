// Between ports 0 and 1; after the first few, half of all packets are damaged, each in another way: cut short, or a byte
// of their headers changed.
#include <core.p4>
#include <v1model.p4>

header bytes_t { bit<400> first; }
struct meta_t { }
struct headers_t { bytes_t bytes; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t standard) {
    state start {
        p.extract(h.bytes);
        transition accept;
    }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t standard) {
    register<bit<32>>(1) packets;
    apply {
        bit<32> number;
        packets.read(number, 0);
        packets.write(0, number + 1);
        standard.egress_spec = standard.ingress_port ^ 1;
        if (number < 8) { // ARP first
        } else if (number[1:0] == 0) {
            truncate(12 + ((number >> 2) & 63));
        } else if (number[1:0] == 1) {
            bit<8> value;
            random(value, 1, 255);
            h.bytes.first = h.bytes.first ^ ((bit<400>)value << (bit<8>)(8 * ((number >> 2) & 31)));
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t standard) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.bytes); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
