// switchml.p4: SwitchML, all-reduce in the switch with a pool of slots (Sapio et al., NSDI 2021), for v1model (BMv2 and
// netfold's engine). General aggregation, to compare switchgnn.p4 with.
//
// What it does. A worker sends a chunk of its values for a slot; when all workers of the job have, the switch multicasts
// the sum to them, and the slot is free for the worker's next chunk. Every slot has two versions that chunks use in turn:
// the one that is not being filled keeps the last result (the shadow copy) until all workers are known to have it, that
// is until its next use. A bitmap for each version says whose values are in: what a worker sends again is not added
// again, and if the sum is complete it is answered with the result. Everything else is IPv4 forwarding.
//
// In the paper a packet of one version clears its worker's bit in the other. Here a version knows which chunk it is
// for: the first packet of a later chunk begins it anew. That also tells copies which a network delivers late, of a chunk
// that is over: they are dropped.
//
// State. For each version of each slot: chunk, bitmap, status (saturation, count), 30 x int<32>.
//
// Tables. job (job -> its first slot, how many, workers, multicast group), worker (job, worker -> port, MAC, IP),
// replica (job, replica -> MAC, IP), ipv4_lpm.
//
// Memory. 264 bytes for each slot: 2 x (12 + 30 x 4).

#include <core.p4>
#include <v1model.p4>
#include "include/wire.p4"
#include "include/switchml.p4"
#include "include/each_value.p4"
#include "include/add_value.p4"

#ifndef SLOTS
#define SLOTS 32768
#endif
#ifndef WORKERS
#define WORKERS 1024
#endif
#define CELLS (2 * SLOTS)

#define INSTANCE_REPLICATED 5

// events
#define ADDED 0
#define RESULTS 1
#define DUPLICATES 2
#define STALE 3
#define SATURATED 4
#define ANSWERED 5                  // results sent again to one worker
#define REFUSED 6

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    switchml_t ml;
    values_t values;
}

struct metadata_t {
    bit<32> first_slot;
    bit<32> slots;
    bit<32> workers;
    bit<16> group;
    bit<32> at;         // the cell: a version of a slot
    bit<32> other;      // the slot's other version
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
            SWITCHML_PORT: switchml;
            default: accept;
        }
    }
    state switchml {
        packet.extract(hdr.ml);
        packet.extract(hdr.values);
        transition accept;
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(CELLS) chunk;             // + 1; 0: never used
    register<bit<32>>(CELLS) bitmap;
    register<bit<32>>(CELLS) status;            // bit 31 saturation, bits 7..0 count
#define VALUE_REGISTER(i) register<bit<32>>(CELLS) value##i;
    EACH_VALUE(VALUE_REGISTER)

    counter(8, CounterType.packets) events;     // added, results, duplicates, stale, saturated, answered, refused

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

    // `workers`: at most 32, as the bitmap has bits.
    action set_job(bit<32> first_slot, bit<32> slots, bit<32> workers, bit<16> group) {
        meta.first_slot = first_slot;
        meta.slots = slots;
        meta.workers = workers;
        meta.group = group;
    }
    table job {
        key = { hdr.ml.job: exact; }
        actions = { set_job; drop; }
        default_action = drop();
        size = 256;
    }
    action to_worker(bit<9> port, bit<48> mac, bit<32> ip) {
        standard.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
    }
    table worker {
        key = { hdr.ml.job: exact; hdr.ml.worker: exact; }
        actions = { to_worker; drop; }
        default_action = drop();
        size = WORKERS;
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
        if (!hdr.ml.isValid() || hdr.ml.result == 1) {
            if (hdr.ipv4.ttl <= 1) { drop(); } else { ipv4_lpm.apply(); }
            return;
        }
        if (!job.apply().hit) {
            events.count(REFUSED);
            return;
        }
        if ((bit<32>)hdr.ml.slot >= meta.slots || (bit<32>)hdr.ml.worker >= meta.workers || hdr.ml.worker >= 32) {
            events.count(REFUSED);
            drop();
            return;
        }
        bit<32> slot = meta.first_slot + (bit<32>)hdr.ml.slot;
        meta.at = slot * 2 + (bit<32>)hdr.ml.version;
        meta.other = slot * 2 + (bit<32>)(1 - hdr.ml.version);
        bit<32> now = hdr.ml.chunk + 1;
        bit<32> me = 32w1 << hdr.ml.worker;
        bit<32> has_chunk;
        bit<32> other_chunk;
        bit<32> other_status;
        bit<32> has;
        bit<32> was;
        chunk.read(has_chunk, meta.at);
        chunk.read(other_chunk, meta.other);
        status.read(other_status, meta.other);
        bitmap.read(has, meta.at);
        status.read(was, meta.at);
        bool fresh = has_chunk != now;
        hdr.udp.checksum = 0;

        if (now == 0) {
            events.count(REFUSED);
            drop();
        } else if (fresh && ((has_chunk != 0 && (int<32>)(now - has_chunk) < 0)
                             || (other_chunk != 0 && (int<32>)(now - other_chunk) <= 0))) {
            events.count(STALE);
            drop();
        } else if (fresh && (other_chunk != 0 || has_chunk != 0)
                   && (now - other_chunk != meta.slots || (bit<32>)other_status[7:0] != meta.workers)) {
            events.count(REFUSED);      // not the slot's next chunk, or nobody has the result of the one before
            drop();
        } else if (!fresh && (has & me) != 0) {
            events.count(DUPLICATES);
            if ((bit<32>)was[7:0] == meta.workers) {
                VALUE_VARIABLES
                EACH_VALUE(TAKE_VALUE)
                events.count(ANSWERED);
                hdr.ml.result = 1;
                hdr.ml.saturated = was[31:31];
                worker.apply();
            } else {
                drop();
            }
        } else {
            VALUE_VARIABLES
            bit<1> saturated = hdr.ml.saturated;
            has = fresh ? 0 : has;
            was = fresh ? 0 : was;
            EACH_VALUE(ADD_VALUE)
            if (saturated == 1 && hdr.ml.saturated == 0) { events.count(SATURATED); }
            saturated = saturated | was[31:31];
            bit<8> count = was[7:0] + 1;
            chunk.write(meta.at, now);
            bitmap.write(meta.at, has | me);
            status.write(meta.at, saturated ++ 23w0 ++ count);
            events.count(ADDED);
            if ((bit<32>)count == meta.workers) {
                events.count(RESULTS);
                hdr.ml.result = 1;
                hdr.ml.saturated = saturated;
                standard.mcast_grp = meta.group;
            } else {
                drop();
            }
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // A result's copy, addressed to its worker. The replica's number is the worker's.
    action to_host(bit<48> mac, bit<32> ip) {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
    }
    table replica {
        key = { hdr.ml.job: exact; standard.egress_rid: exact; }
        actions = { to_host; NoAction; }
        default_action = NoAction();
        size = WORKERS;
    }
    apply {
        if (standard.instance_type == INSTANCE_REPLICATED) { replica.apply(); }
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.ml);
        packet.emit(hdr.values);
    }
}

V1Switch(Parse(), Verify(), SwitchIngress(), SwitchEgress(), Compute(), Deparse()) main;
