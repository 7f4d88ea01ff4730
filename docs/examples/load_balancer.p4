// load_balancer.p4: an IPv4 router for v1model that spreads flows over equal paths (ECMP): a hash of addresses, protocol
// and ports picks one of a destination's next hops, so packets of a flow stay in order.
//
// Tables: destinations (prefix -> group of next hops and how many they are), next_hops (group and number -> port and MAC
// address, with a counter). A destination with one next hop is a group of one.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> identification;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ports_t {            // of TCP and UDP
    bit<16> src;
    bit<16> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    ports_t ports;
}

struct metadata_t {
    bit<16> group;
    bit<16> choice;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        // The header without options, and no later fragment, whose payload does not begin with ports.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment & 0x1fff, hdr.ipv4.protocol) {
            (5, 0, 6): ports;
            (5, 0, 17): ports;
            default: accept;
        }
    }
    state ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification, hdr.ipv4.fragment,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) used;

    action drop() {
        mark_to_drop(standard);
    }
    action set_group(bit<16> group, bit<16> count) {
        meta.group = group;
        bit<16> source_port = 0;
        bit<16> target_port = 0;
        if (hdr.ports.isValid()) {
            source_port = hdr.ports.src;
            target_port = hdr.ports.dst;
        }
        hash(meta.choice, HashAlgorithm.crc32, 16w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, source_port, target_port }, count);
    }
    action forward(bit<9> port, bit<48> mac) {
        used.count();
        standard.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table destinations {
        key = { hdr.ipv4.dst: lpm; }
        actions = { set_group; drop; }
        default_action = drop();
        size = 65536;
    }
    table next_hops {
        key = { meta.group: exact; meta.choice: exact; }
        actions = { forward; drop; }
        default_action = drop();
        counters = used;
        size = 65536;
    }
    apply {
        if (!hdr.ipv4.isValid() || standard.checksum_error == 1 || hdr.ipv4.ttl <= 1) {
            drop();
        } else if (destinations.apply().hit) {
            next_hops.apply();
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification, hdr.ipv4.fragment,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(Parse(), Verify(), SwitchIngress(), SwitchEgress(), Compute(), Deparse()) main;
