// switchgnn.p4: aggregation of graph propagations in the switch, for v1model (BMv2 and netfold's engine).
//
// What it does. An upload of vertex u is added into the aggregator of every neighbour v of u in the block, one
// neighbour a pass: the packet recirculates until its neighbours are served (recirculation multicast). When v's
// count reaches what the block expects, the sum leaves as one result to v's owner, or as one partial to v's leaf.
// When all workers have reported a block done, its completion is multicast. Resends, bypassed and pulled chunks are
// forwarded and never added; a second copy of an upload is dropped. Everything else is IPv4 forwarding with ECN.
//
// State. Aggregators: control word (tag, count) and 30 x int<32>. The tag is (round, block): an aggregator whose tag
// is another block's counts as empty, so that a block in which packets were lost leaves nothing behind.
// `seen`: the last (round, block) in which a (vertex, chunk) was uploaded. Adjacency: loaded by `load` packets, as
// BMv2 has no P4Runtime for registers.
//
// Tables. job (job -> chunks, workers, multicast group), worker (worker -> port, MAC, IP), ipv4_lpm, ecn.
//
// Memory. 128 + 4 (seen) bytes for each aggregator, that is for each vertex of a block and chunk; 16 bytes for each
// vertex of each block (first edge, degree, expected, owner), 4 bytes for each directed edge.

#include <core.p4>
#include <v1model.p4>
#include "include/wire.p4"
#include "include/each_value.p4"

#ifndef AGGREGATORS
#define AGGREGATORS 65536
#endif
#ifndef BLOCKS
#define BLOCKS 4096
#endif
#ifndef ENTRIES
#define ENTRIES 262144
#endif
#ifndef EDGES
#define EDGES 4194304
#endif
#ifndef WORKERS
#define WORKERS 1024
#endif

#define RECIRCULATE_PORT 9w510      // leads nowhere: egress sends what comes here round again
#define RECIRCULATE_SESSION 1       // a clone session to that port
#define PRESERVED 1                 // the field list that goes round

#define INSTANCE_NORMAL 0
#define INSTANCE_INGRESS_CLONE 1
#define INSTANCE_RECIRCULATED 4

// The arrays that `load` packets fill, by their number in the chunk field.
#define ARRAY_BLOCK_FIRST 0         // block -> its first entry
#define ARRAY_ENTRY_EDGE 1          // entry (block's first + slot) -> its first edge
#define ARRAY_ENTRY_DEGREE 2
#define ARRAY_ENTRY_EXPECTED 3
#define ARRAY_ENTRY_OWNER 4         // worker
#define ARRAY_EDGE_SLOT 5           // edge -> the neighbour's slot

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    aggregation_t agg;
    values_t values;
}

struct metadata_t {
    @field_list(PRESERVED) bit<32> edge;    // the next edge to serve
    @field_list(PRESERVED) bit<32> left;    // edges left to serve, this one included
    bit<32> chunks;                         // of a vertex, in this job
    bit<32> workers;
    bit<16> group;
    bit<32> entry;
    bit<32> target;                         // the slot whose aggregator this pass adds to
    bit<32> at;                             // that aggregator
}

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
        transition select(hdr.ipv4.protocol, hdr.ipv4.ihl) {
            (PROTOCOL_UDP, 5): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            AGGREGATION_PORT: aggregation;
            default: accept;
        }
    }
    state aggregation {
        packet.extract(hdr.agg);
        packet.extract(hdr.values);
        transition accept;
    }
}

#define IPV4_FIELDS(h) { h.version, h.ihl, h.dscp, h.ecn, h.length, h.identification, h.flags, h.fragment, \
    h.ttl, h.protocol, h.src, h.dst }

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS(hdr.ipv4), hdr.ipv4.checksum,
                        HashAlgorithm.csum16);
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(BLOCKS) block_first;
    register<bit<32>>(ENTRIES) entry_edge;
    register<bit<32>>(ENTRIES) entry_degree;
    register<bit<32>>(ENTRIES) entry_expected;
    register<bit<32>>(ENTRIES) entry_owner;
    register<bit<32>>(EDGES) edge_slot;

    register<bit<32>>(AGGREGATORS) seen;
    register<bit<32>>(AGGREGATORS) tag;
    register<bit<32>>(AGGREGATORS) count;       // bit 31: some value was saturated
#define VALUE_REGISTER(i) register<int<32>>(AGGREGATORS) value##i;
    EACH_VALUE(VALUE_REGISTER)

    register<bit<32>>(WORKERS) done_seen;       // (round, block) + 1 that the worker last reported done
    register<bit<32>>(1) done_count;
    register<bit<32>>(1) done_tag;              // what done_count counts for

    counter(8, CounterType.packets) events;     // 0 added, 1 results, 2 duplicates, 3 stale, 4 saturated, 5 completions

    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port, bit<48> mac) {
        standard.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table ipv4_lpm {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 4096;
    }

    action set_job(bit<32> chunks, bit<32> workers, bit<16> group) {
        meta.chunks = chunks;
        meta.workers = workers;
        meta.group = group;
    }
    table job {
        key = { hdr.agg.job: exact; }
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
        hdr.ipv4.ecn = hdr.ipv4.ecn == 3 ? 2w2 : hdr.ipv4.ecn;  // congestion on the way here is the uploader's
    }
    // `remote`: the worker is behind another leaf, which finishes the sum.
    action to_remote_worker(bit<9> port, bit<48> mac, bit<32> ip) {
        to_worker(port, mac, ip);
        hdr.agg.type = packet_type_t.partial;
        hdr.agg.level = 1;
    }
    table worker {
        key = { hdr.agg.worker: exact; }
        actions = { to_worker; to_remote_worker; drop; }
        default_action = drop();
        size = WORKERS;
    }

    // ---- loading

#define LOAD_WORD(array, i) if (hdr.agg.count > i) { array.write(hdr.agg.vertex + i, (bit<32>)hdr.values.v##i); }
#define LOAD_BLOCK_FIRST(i) LOAD_WORD(block_first, i)
#define LOAD_ENTRY_EDGE(i) LOAD_WORD(entry_edge, i)
#define LOAD_ENTRY_DEGREE(i) LOAD_WORD(entry_degree, i)
#define LOAD_ENTRY_EXPECTED(i) LOAD_WORD(entry_expected, i)
#define LOAD_ENTRY_OWNER(i) LOAD_WORD(entry_owner, i)
#define LOAD_EDGE_SLOT(i) LOAD_WORD(edge_slot, i)

    action load() {
        if (hdr.agg.chunk == ARRAY_BLOCK_FIRST) { EACH_VALUE(LOAD_BLOCK_FIRST) }
        else if (hdr.agg.chunk == ARRAY_ENTRY_EDGE) { EACH_VALUE(LOAD_ENTRY_EDGE) }
        else if (hdr.agg.chunk == ARRAY_ENTRY_DEGREE) { EACH_VALUE(LOAD_ENTRY_DEGREE) }
        else if (hdr.agg.chunk == ARRAY_ENTRY_EXPECTED) { EACH_VALUE(LOAD_ENTRY_EXPECTED) }
        else if (hdr.agg.chunk == ARRAY_ENTRY_OWNER) { EACH_VALUE(LOAD_ENTRY_OWNER) }
        else if (hdr.agg.chunk == ARRAY_EDGE_SLOT) { EACH_VALUE(LOAD_EDGE_SLOT) }
        drop();     // the sender learns by reading back, or by the sums being right
    }

    // ---- aggregation

    // The first pass of an upload: whether it is new, and which edges it has.
    action begin_upload() {
        bit<32> last;
        bit<32> own = hdr.agg.vertex * meta.chunks + (bit<32>)hdr.agg.chunk;
        bit<32> now = hdr.agg.round ++ hdr.agg.block;
        seen.read(last, own);
        if (last == now + 1) {
            meta.left = 0;
            events.count(2);
        } else {
            seen.write(own, now + 1);
            entry_edge.read(meta.edge, meta.entry);
            entry_degree.read(meta.left, meta.entry);
        }
    }

    // One value: what the aggregator held (nothing, if it was another block's) plus the packet's.
#define ADD_VALUE(i) value##i.read(held, meta.at); if (fresh) { held = 0; } sum = held |+| hdr.values.v##i; \
    if (sum != held + hdr.values.v##i) { saturated = 1; } value##i.write(meta.at, sum); hdr.values.v##i = sum;

    // Adds the packet into aggregator meta.at; its values become the sum. `complete`: nothing is missing any more.
    action add(out bool complete) {
        bit<32> old_tag;
        bit<32> old_count = 0;
        bit<32> expected;
        int<32> held;
        int<32> sum;
        bit<32> now = (hdr.agg.round ++ hdr.agg.block) + 1;     // 0 is the tag of a register never written
        bit<1> saturated = hdr.agg.saturated;
        tag.read(old_tag, meta.at);
        bool fresh = old_tag != now;
        if (!fresh) { count.read(old_count, meta.at); }
        tag.write(meta.at, now);
        EACH_VALUE(ADD_VALUE)
        saturated = saturated | old_count[31:31];
        bit<32> total = (bit<32>)old_count[30:0] + hdr.agg.count;
        entry_expected.read(expected, meta.entry);
        count.write(meta.at, saturated ++ total[30:0]);
        hdr.agg.saturated = saturated;
        hdr.agg.count = total;
        complete = total == expected;
        events.count(0);
    }

    // The packet becomes the result for slot meta.target, and goes to its owner.
    action become_result() {
        bit<32> owner;
        entry_owner.read(owner, meta.entry);
        hdr.agg.type = packet_type_t.result;
        hdr.agg.vertex = meta.target;
        hdr.agg.worker = (bit<16>)owner;
        events.count(1);
    }

    // ---- blocks

    // A worker reports a block done. `complete`: it was the last one; `again`: the block was complete before.
    action note_done(out bool complete, out bool again) {
        bit<32> now = (hdr.agg.round ++ hdr.agg.block) + 1;
        bit<32> counted_for;
        bit<32> n;
        bit<32> last;
        done_tag.read(counted_for, 0);
        done_count.read(n, 0);
        done_seen.read(last, (bit<32>)hdr.agg.worker);
        again = last == now && counted_for == now && n == meta.workers;
        complete = false;
        if (last != now) {
            if (counted_for != now) { n = 0; }
            n = n + 1;
            done_seen.write((bit<32>)hdr.agg.worker, now);
            done_tag.write(0, now);
            done_count.write(0, n);
            complete = n == meta.workers;
        }
    }

    apply {
        bool complete = false;
        bool again = false;
        if (!hdr.ipv4.isValid() || standard.checksum_error == 1) {
            drop();
            return;
        }
        bool plain = !hdr.agg.isValid() || hdr.agg.bypass == 1 || hdr.agg.pull == 1 || hdr.agg.resend == 1;
        bool for_switch = hdr.agg.type == packet_type_t.upload || hdr.agg.type == packet_type_t.partial
            || hdr.agg.type == packet_type_t.done || hdr.agg.type == packet_type_t.load;
        // A `done` may be sent again: it is counted once for each worker.
        if (hdr.agg.isValid() && hdr.agg.type == packet_type_t.done) { plain = false; }
        if (plain || !for_switch) {
            if (hdr.ipv4.ttl <= 1) { drop(); } else { ipv4_lpm.apply(); }
            return;
        }
        if (hdr.agg.type == packet_type_t.load) {
            load();
            return;
        }
        if (!job.apply().hit) { return; }

        if (hdr.agg.type == packet_type_t.done) {
            note_done(complete, again);
            hdr.agg.type = packet_type_t.complete;
            if (complete) {
                events.count(5);
                standard.mcast_grp = meta.group;
            } else if (again) {
                worker.apply();     // its completion was lost: to this worker once more
            } else {
                drop();
            }
            return;
        }

        bit<32> first;
        block_first.read(first, (bit<32>)hdr.agg.block);
        meta.entry = first + hdr.agg.vertex;
        if (hdr.agg.type == packet_type_t.partial) {
            meta.target = hdr.agg.vertex;
            meta.left = 1;
        } else {
            if (standard.instance_type == INSTANCE_NORMAL) { begin_upload(); }
            if (meta.left == 0) {
                drop();
                return;
            }
            edge_slot.read(meta.target, meta.edge);
            meta.entry = first + meta.target;
        }
        meta.at = meta.target * meta.chunks + (bit<32>)hdr.agg.chunk;
        meta.edge = meta.edge + 1;
        meta.left = meta.left - 1;
        values_t uploaded = hdr.values;
        bit<32> contributed = hdr.agg.count;
        bit<1> was_saturated = hdr.agg.saturated;
        add(complete);
        if (hdr.agg.saturated == 1 && was_saturated == 0) { events.count(4); }
        if (complete) {
            // The result leaves; if neighbours are left, a clone of the packet as it came goes on.
            if (meta.left > 0) { clone_preserving_field_list(CloneType.I2E, RECIRCULATE_SESSION, PRESERVED); }
            become_result();
            worker.apply();
        } else if (meta.left > 0) {
            hdr.values = uploaded;
            hdr.agg.count = contributed;
            hdr.agg.saturated = was_saturated;
            standard.egress_spec = RECIRCULATE_PORT;
        } else {
            drop();
        }
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Marks packets of ECN-capable transports when they waited behind `threshold` packets or more.
    action mark(bit<19> threshold) {
        if (standard.deq_qdepth >= threshold && (hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2)) { hdr.ipv4.ecn = 3; }
    }
    table ecn {
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (standard.egress_port == RECIRCULATE_PORT) {
            recirculate_preserving_field_list(PRESERVED);
        } else {
            ecn.apply();
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_FIELDS(hdr.ipv4), hdr.ipv4.checksum,
                        HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.agg);
        packet.emit(hdr.values);
    }
}

V1Switch(Parse(), Verify(), SwitchIngress(), SwitchEgress(), Compute(), Deparse()) main;
