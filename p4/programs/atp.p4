// atp.p4: ATP, best-effort in-network aggregation for a parameter server and several jobs (Lao et al., NSDI 2021),
// for v1model (BMv2 and netfold's engine). General aggregation, to compare switchgnn.p4 with.
//
// What it does. Workers send packets of values; those with the same job and sequence number are added up in one
// aggregator, found by a hash of the two and shared by all jobs: first come, first served. The aggregator's bitmap says
// whose values are in. When the fan-in is reached the sum goes on to the server; a packet that finds its aggregator
// taken by another (a collision) goes to the server as it is. The server's acknowledgment, which carries the final
// values, frees the aggregator and is multicast to the workers. A packet that a worker sends again makes the
// aggregator hand over what it has and be free: from then on the server adds up. Marks of congestion are or-ed into
// the sum. Two levels: the rack's switch aggregates its workers, the server's switch the racks.
// Everything else is IPv4 forwarding.
//
// Beyond the paper, so that copies which a network delivers late cannot keep an aggregator for ever: one that was not
// touched for `idle_us` counts as free. What it held reaches the server by resends.
//
// State. Aggregators: owner (job and sequence; 0 free), bitmap, status (congestion, saturation, count), time of the last
// use, 30 x int<32>.
//
// Tables. job (job -> level, multicast group, server's address, idle time), replica (job, replica -> MAC, IP), ipv4_lpm,
// ecn. A job without an entry is only forwarded.
//
// Memory. 136 bytes for each aggregator: 16 + 30 x 4.

#include <core.p4>
#include <v1model.p4>
#include "include/wire.p4"
#include "include/atp.p4"
#include "include/each_value.p4"
#include "include/add_value.p4"

#ifndef AGGREGATORS
#define AGGREGATORS 65536
#endif
#ifndef WORKERS
#define WORKERS 1024
#endif

#define INSTANCE_REPLICATED 5

// events
#define ADDED 0
#define SENT 1                      // sums, whole or, for a resend, in part
#define DUPLICATES 2
#define COLLISIONS 3
#define SATURATED 4
#define FREED 5
#define REFUSED 6
#define EVICTED 7                   // aggregators that were idle

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    atp_t atp;
    values_t values;
}

struct metadata_t {
    bit<8> level;       // that this switch aggregates
    bit<16> group;
    bit<32> server;
    bit<32> idle_us;
    bit<32> at;         // the aggregator
}

#include "include/ipv4_checksum.p4"

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol, hdr.ipv4.ihl, hdr.ipv4.flags & 1, hdr.ipv4.fragment) {
            (PROTOCOL_UDP, 5, 0, 0): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            ATP_PORT: atp;
            default: accept;
        }
    }
    state atp {
        packet.extract(hdr.atp);
        packet.extract(hdr.values);
        transition accept;
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(AGGREGATORS) owner;       // job ++ sequence; 0: free
    register<bit<32>>(AGGREGATORS) bitmap;
    register<bit<32>>(AGGREGATORS) status;      // bit 31 congestion, bit 30 saturation, bits 7..0 count
    register<bit<32>>(AGGREGATORS) used_us;     // when it was touched last
#define VALUE_REGISTER(i) register<bit<32>>(AGGREGATORS) value##i;
    EACH_VALUE(VALUE_REGISTER)

    counter(8, CounterType.packets) events; // added, sent, duplicates, collisions, saturated, freed, refused, evicted

    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port, bit<48> mac) {
        standard.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        DECREMENT_TTL(hdr.ipv4)
    }
    table ipv4_lpm {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 4096;
    }

    action aggregate(bit<8> level, bit<16> group, bit<32> server, bit<32> idle_us) {
        meta.level = level;
        meta.group = group;
        meta.server = server;
        meta.idle_us = idle_us;
    }
    table job {
        key = { hdr.atp.job: exact; }
        actions = { aggregate; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            events.count(REFUSED);
            drop();
            return;
        }
        if (!hdr.ipv4.isValid()) {
            drop();
            return;
        }
        bool goes_on = !hdr.atp.isValid() || hdr.atp.collision == 1 || !job.apply().hit;
        bit<32> id = hdr.atp.job ++ hdr.atp.sequence;
        if (!goes_on) {
            hash(meta.at, HashAlgorithm.crc32, 32w0, { hdr.atp.job, hdr.atp.sequence }, (bit<32>)AGGREGATORS);
        }

        // ---- the server's answer

        if (!goes_on && hdr.atp.ack == 1) {
            if (hdr.ipv4.src != meta.server) {
                events.count(REFUSED);
                drop();
                return;
            }
            bit<32> whose;
            owner.read(whose, meta.at);
            if (whose == id) {
                owner.write(meta.at, 0);
                bitmap.write(meta.at, 0);
                status.write(meta.at, 0);
                events.count(FREED);
            }
            if (hdr.atp.resend == 0) {
                standard.mcast_grp = meta.group;
                return;
            }
            goes_on = true;
        }

        // ---- values from below

        if (!goes_on && hdr.atp.level == meta.level) {
            bit<32> bits = meta.level == 0 ? hdr.atp.bitmap0 : hdr.atp.bitmap1;
            bit<8> fan_in = meta.level == 0 ? hdr.atp.fan_in0 : hdr.atp.fan_in1;
            bit<33> rack = (33w1 << hdr.atp.fan_in0) - 1;
            // One sender, of those that there are; and a rack only if it is whole.
            if (hdr.ipv4.dst != meta.server || id == 0 || bits == 0 || (bits & (bits - 1)) != 0 || fan_in > 32
                || (bit<33>)bits >= (33w1 << fan_in) || hdr.atp.bitmap1 == 0
                || (meta.level != 0 && (hdr.atp.fan_in0 > 32 || hdr.atp.bitmap0 != rack[31:0]))) {
                events.count(REFUSED);
                drop();
                return;
            }
            bit<32> whose;
            bit<32> has;
            bit<32> was;
            bit<32> last_us;
            bit<32> now_us = (bit<32>)standard.ingress_global_timestamp;
            owner.read(whose, meta.at);
            bitmap.read(has, meta.at);
            status.read(was, meta.at);
            used_us.read(last_us, meta.at);
            bit<1> congestion = hdr.ipv4.ecn == 3 ? 1w1 : hdr.atp.ecn;
            if (whose != 0 && now_us - last_us > meta.idle_us) {
                events.count(EVICTED);
                whose = 0;
                owner.write(meta.at, 0);
                bitmap.write(meta.at, 0);
                status.write(meta.at, 0);
            }
            if (whose != 0 && whose != id) {
                events.count(COLLISIONS);
                hdr.atp.collision = 1;
                hdr.atp.ecn = congestion;
                goes_on = true;
            } else if (whose == 0 && hdr.atp.resend == 1) {
                goes_on = true;     // the server adds up from here
            } else if (whose == id && (has & bits) != 0 && hdr.atp.resend == 0) {
                events.count(DUPLICATES);
                drop();
                return;
            } else {
                bool fresh = whose == 0;
                has = fresh ? 0 : has;
                was = fresh ? 0 : was;
                bit<8> count = was[7:0];
                bit<1> saturated = hdr.atp.saturated;
                if ((has & bits) == 0) {
                    VALUE_VARIABLES
                    EACH_VALUE(ADD_VALUE)
                    if (saturated == 1 && hdr.atp.saturated == 0) { events.count(SATURATED); }
                    has = has | bits;
                    count = count + 1;
                    events.count(ADDED);
                } else {
                    VALUE_VARIABLES
                    EACH_VALUE(TAKE_VALUE)
                }
                saturated = saturated | was[30:30];
                congestion = congestion | was[31:31];
                bool complete = count == fan_in;
                // A resend takes what there is along, and the aggregator is free.
                bool leaves = hdr.atp.resend == 1;
                owner.write(meta.at, leaves ? 0 : id);
                bitmap.write(meta.at, leaves ? 0 : has);
                status.write(meta.at, leaves ? 0 : congestion ++ saturated ++ 22w0 ++ count);
                used_us.write(meta.at, now_us);
                if (!complete && !leaves) {
                    drop();
                    return;
                }
                if (leaves) { events.count(FREED); }
                events.count(SENT);
                hdr.atp.ecn = congestion;
                hdr.atp.saturated = saturated;
                hdr.udp.checksum = 0;
                if (meta.level == 0) {
                    hdr.atp.bitmap0 = has;
                    hdr.atp.level = complete ? 8w1 : 8w0;
                } else {
                    hdr.atp.bitmap1 = has;
                }
                goes_on = true;
            }
        } else {
            goes_on = true;
        }

        if (goes_on) {
            if (hdr.ipv4.ttl <= 1) { drop(); } else { ipv4_lpm.apply(); }
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Marks packets of ECN-capable transports when they waited behind `threshold` packets or more.
    action mark(bit<19> threshold) {
        hdr.ipv4.ecn = standard.deq_qdepth >= threshold && (hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2) ? 2w3
            : hdr.ipv4.ecn;
    }
    table ecn {
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    // An acknowledgment's copy, addressed to its worker (or to one behind the next switch).
    action to_host(bit<48> mac, bit<32> ip) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
        hdr.udp.checksum = 0;
    }
    table replica {
        key = { hdr.atp.job: exact; standard.egress_rid: exact; }
        actions = { to_host; NoAction; }
        default_action = NoAction();
        size = WORKERS;
    }
    apply {
        if (standard.instance_type == INSTANCE_REPLICATED) { replica.apply(); }
        if (hdr.ipv4.isValid()) { ecn.apply(); }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.atp);
        packet.emit(hdr.values);
    }
}

V1Switch(Parse(), Verify(), SwitchIngress(), SwitchEgress(), Compute(), Deparse()) main;
