// switchgnn.p4: aggregation of graph propagations in the switch, for v1model (BMv2 and netfold's engine).
//
// What it does. An upload of vertex u is added into the aggregator of every neighbour v of u in the block, one
// neighbour a pass: the packet recirculates until its neighbours are served (recirculation multicast). When v's
// count reaches what the block expects, the sum leaves as one result to v's owner, or as one partial to v's leaf.
// When all workers have reported a block done, its completion is multicast; the leaves of a fabric report to one
// switch, which counts them and lets them know. Resends, bypassed and pulled chunks are forwarded and never added;
// a second copy of an upload or partial is dropped. Everything else is IPv4 forwarding with ECN. A sum keeps the mark of
// its last contribution, whose sender the UDP source port still names: the owner asks that one to slow down.
//
// State. Aggregators: control word (tag, count) and 30 x int<32>. The tag is (round, block): an aggregator whose tag
// is an earlier block's counts as empty, so that a block in which packets were lost leaves nothing behind; a packet
// of an earlier block than the aggregator's is stale and dropped. `seen`: the last (round, block) in which a (vertex,
// chunk) was uploaded. `sources`: which senders' partials an aggregator holds. Adjacency: include/adjacency.p4. Of each
// job, the block that its workers are finishing, and how many have. `load_turn`, which the control plane counts up when
// it sets up a switch anew: lists from before, still on their way, are refused.
//
// Whatever a packet names (job, worker, block, vertex, chunk, count) is checked against its job's own part of each
// array before anything is written; a packet that names what is not there is dropped and counted.
//
// Tables. job (job -> what this switch does for it, chunks, workers, multicast group), memory (job -> its part of each
// array), worker (job, worker -> port, MAC, IP), replica (job, replica -> MAC, IP), ipv4_lpm, ecn.
//
// Memory. 128 + 4 (seen) + 4 (sources; SOURCES / 8) bytes for each aggregator, that is for each vertex of a block and
// chunk; 16 bytes for each vertex of each block (first edge, degree, expected, owner), 8 for each block, 4 for each
// directed edge; 4 for each worker, 12 for each job.

#include <core.p4>
#include <v1model.p4>
#include "include/wire.p4"
#include "include/each_value.p4"
#include "include/add_value.p4"

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
// Senders of partials at one switch: with presummed uploads its workers, and behind them the other leaves.
#ifndef SOURCES
#define SOURCES 32
#endif

#define RECIRCULATE_PORT 9w510      // leads nowhere: egress sends what comes here round again
#define RECIRCULATE_SESSION 1       // a clone session to that port
#define PRESERVED 1                 // the field list that goes round

#define INSTANCE_NORMAL 0
#define INSTANCE_REPLICATED 5

// events
#define ADDED 0
#define RESULTS 1
#define DUPLICATES 2
#define STALE 3
#define SATURATED 4
#define COMPLETIONS 5
#define REFUSED 6

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    aggregation_t agg;
    values_t values;
}

struct metadata_t {
    @field_list(PRESERVED) bit<32> edge;    // the next edge to serve, counted from the job's first
    @field_list(PRESERVED) bit<32> left;    // edges left to serve, this one included
    // The job's.
    bit<32> chunks;                         // of a vertex; below 2^16
    bit<32> first_worker;
    bit<32> workers;                        // or leaves: how many report blocks done here
    bit<16> group;
    bool sums;                              // this switch adds up, not only counts what is done
    bool reports;                           // what is done here is reported further up
    bit<9> up_port;
    bit<16> leaf;
    bit<32> blocks_at;                      // its part of each array: the first element, and how many
    bit<32> blocks;
    bit<32> entries_at;
    bit<32> entries;
    bit<32> edges_at;
    bit<32> edges;
    bit<32> aggregators_at;
    bit<32> aggregators;
    bit<32> workers_at;
    // The packet's.
    bool refused;
    bit<32> target;                         // the slot whose aggregator this pass adds to
    bit<32> at;                             // that aggregator
    bit<32> next;                           // the one that the packet comes to a pass later
    bit<32> soon;                           // ... and two
    bit<32> own;                            // where `seen` knows the uploaded vertex
    bit<32> expected;                       // of the target
    bit<32> owner;
}

#include "include/ipv4_checksum.p4"
#include "include/adjacency.p4"

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

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(AGGREGATORS) seen;
    register<bit<SOURCES>>(AGGREGATORS) sources;
    register<bit<32>>(AGGREGATORS) tag;
    register<bit<32>>(AGGREGATORS) count;       // bit 31: some value was saturated
#define VALUE_REGISTER(i) register<bit<32>>(AGGREGATORS) value##i;
    EACH_VALUE(VALUE_REGISTER)

    register<bit<32>>(WORKERS) done_seen;       // (round, block) + 1 that the worker last reported done
    register<bit<32>>(256) done_count;          // job -> how many did
    register<bit<32>>(256) done_tag;            // job -> what done_count counts for
    register<bit<32>>(256) load_turn;           // job -> the round that its `load` packets must have

    counter(8, CounterType.packets) events;     // added, results, duplicates, stale, saturated, completions, refused

    Adjacency() adjacency;

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

    action set_job(bit<32> chunks, bit<32> workers, bit<16> group) {
        meta.chunks = chunks;
        meta.first_worker = 0;
        meta.workers = workers;
        meta.group = group;
        meta.sums = true;
        meta.reports = false;
    }
    // One of several leaves, with the workers from `first_worker` on. What they have done it reports, as number `leaf`,
    // to the switch behind `up_port`.
    action set_leaf(bit<32> chunks, bit<32> first_worker, bit<32> workers, bit<16> group, bit<9> up_port,
                    bit<16> leaf) {
        set_job(chunks, workers, group);
        meta.first_worker = first_worker;
        meta.reports = true;
        meta.up_port = up_port;
        meta.leaf = leaf;
    }
    // Above the leaves: counts the reports of `leaves`, and forwards the rest.
    action set_spine(bit<32> leaves, bit<16> group) {
        set_job(0, leaves, group);
        meta.sums = false;
    }
    // On the way between others: forwards everything.
    action transit() {
        set_job(0, 0, 0);
        meta.sums = false;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { set_job; set_leaf; set_spine; transit; drop; }
        default_action = drop();
        size = 256;
    }

    action set_memory(bit<32> blocks_at, bit<32> blocks, bit<32> entries_at, bit<32> entries, bit<32> edges_at,
                      bit<32> edges, bit<32> aggregators_at, bit<32> aggregators, bit<32> workers_at) {
        meta.blocks_at = blocks_at;
        meta.blocks = blocks;
        meta.entries_at = entries_at;
        meta.entries = entries;
        meta.edges_at = edges_at;
        meta.edges = edges;
        meta.aggregators_at = aggregators_at;
        meta.aggregators = aggregators;
        meta.workers_at = workers_at;
    }
    table memory {
        key = { hdr.agg.job: exact; }
        actions = { set_memory; drop; }
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
        hdr.udp.checksum = 0;
    }
    // The worker is behind another leaf, which finishes the sum.
    action to_remote_worker(bit<9> port, bit<48> mac, bit<32> ip) {
        to_worker(port, mac, ip);
        hdr.agg.type = packet_type_t.partial;
        hdr.agg.level = 1;
        hdr.agg.worker = meta.leaf;
    }
    table worker {
        key = { hdr.agg.job: exact; hdr.agg.worker: exact; }
        actions = { to_worker; to_remote_worker; drop; }
        default_action = drop();
        size = WORKERS;
    }

// An aggregator that this pass or a later one adds to, read for nothing: netfold's engine starts loading it.
#define LOOK_AT(aggregator) tag.read(unused, aggregator); sources.read(unused_senders, aggregator);

#define CLEAR_TAG(i) if (hdr.agg.count > i) { tag.write(meta.aggregators_at + hdr.agg.vertex + i, 0); }
#define CLEAR_SEEN(i) if (hdr.agg.count > i) { seen.write(meta.aggregators_at + hdr.agg.vertex + i, 0); }
#define CLEAR_DONE(i) if (hdr.agg.count > i) { done_seen.write(meta.workers_at + hdr.agg.vertex + i, 0); }

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
        bool for_switch = false;
        if (hdr.agg.isValid()) {
            bool marked = hdr.agg.bypass == 1 || hdr.agg.pull == 1;
            // A `done` may be sent again: it is counted once for each worker.
            for_switch = !marked && (hdr.agg.type == packet_type_t.done || hdr.agg.type == packet_type_t.load
                || (hdr.agg.resend == 0 && (hdr.agg.type == packet_type_t.upload
                    || hdr.agg.type == packet_type_t.partial))
                || (hdr.agg.type == packet_type_t.complete && hdr.agg.level == 1));
            if ((bit<8>)hdr.agg.type == 0 || (bit<8>)hdr.agg.type > (bit<8>)packet_type_t.cnp) {
                events.count(REFUSED);
                drop();
                return;
            }
        }
        if (for_switch && !job.apply().hit) {
            events.count(REFUSED);
            return;
        }
        // A switch that does not add up still counts what its leaves have done.
        if (!meta.sums && !(hdr.agg.type == packet_type_t.done && meta.workers > 0)) { for_switch = false; }
        if (hdr.agg.isValid() && hdr.agg.type == packet_type_t.complete && !meta.reports) { for_switch = false; }
        if (!for_switch) {
            if (hdr.ipv4.ttl <= 1) { drop(); } else { ipv4_lpm.apply(); }
            return;
        }
        bit<32> now = (hdr.agg.round ++ hdr.agg.block) + 1;     // 0 is what a register never written holds
        bit<32> job_number = (bit<32>)hdr.agg.job;
        bit<32> counting;
        if (hdr.agg.type == packet_type_t.complete) {   // from above: to this leaf's workers
            if (standard.ingress_port != meta.up_port) {
                events.count(REFUSED);
                drop();
                return;
            }
            // What is complete there is complete here, even if this leaf was restarted and counted anew.
            done_tag.read(counting, job_number);
            if (counting == 0 || (int<32>)(now - counting) >= 0) {
                done_tag.write(job_number, now);
                done_count.write(job_number, meta.workers);
            }
            hdr.agg.level = 0;
            hdr.udp.checksum = 0;
            standard.mcast_grp = meta.group;
            events.count(COMPLETIONS);
            return;
        }
        if (!memory.apply().hit) {
            events.count(REFUSED);
            return;
        }
        bit<32> me = (bit<32>)hdr.agg.worker - meta.first_worker;

        // ---- blocks

        if (hdr.agg.type == packet_type_t.done) {
            bit<32> n;
            bit<32> last;
            if (me >= meta.workers || meta.sums == (hdr.agg.level != 0)
                || (meta.sums && (bit<32>)hdr.agg.block >= meta.blocks)) {
                events.count(REFUSED);
                drop();
                return;
            }
            done_tag.read(counting, job_number);
            done_count.read(n, job_number);
            done_seen.read(last, meta.workers_at + me);
            bool again = false;         // to this worker once more: its completion was lost
            bool complete = false;
            if (counting != 0 && (int<32>)(now - counting) < 0) {
                events.count(STALE);    // a later block has begun, so this one was completed
                again = true;
            } else if (now != counting && counting != 0 && n != meta.workers) {
                events.count(REFUSED);  // nobody can be done with a block before its turn
            } else if (now != counting || (last != now && n != meta.workers)) {
                n = now != counting ? 32w1 : n + 1;
                done_seen.write(meta.workers_at + me, now);
                done_tag.write(job_number, now);
                done_count.write(job_number, n);
                complete = n == meta.workers;
            } else {
                events.count(DUPLICATES);
                again = n == meta.workers;
            }
            hdr.udp.checksum = 0;
            if (meta.reports && (complete || (again && now == counting))) {
                hdr.agg.level = 1;
                hdr.agg.worker = meta.leaf;
                standard.egress_spec = meta.up_port;
            } else if (complete) {
                events.count(COMPLETIONS);
                hdr.agg.type = packet_type_t.complete;
                standard.mcast_grp = meta.group;
            } else if (again) {
                hdr.agg.type = packet_type_t.complete;
                worker.apply();
            } else {
                drop();
            }
            return;
        }

        // ---- loading, and what a packet names

        if (hdr.agg.type == packet_type_t.load) {
            // Lists that were on their way to this switch before it was restarted, perhaps in part.
            bit<32> turn;
            load_turn.read(turn, job_number);
            if ((bit<32>)hdr.agg.round != turn) {
                events.count(STALE);
                drop();
                return;
            }
        }
        adjacency.apply(hdr, meta, standard);
        if (meta.refused) {
            events.count(REFUSED);
            drop();
            return;
        }
        if (hdr.agg.type == packet_type_t.load) {
            if (hdr.agg.chunk == ARRAY_TAG) { EACH_VALUE(CLEAR_TAG) }
            else if (hdr.agg.chunk == ARRAY_SEEN) { EACH_VALUE(CLEAR_SEEN) }
            else if (hdr.agg.chunk == ARRAY_DONE) {
                EACH_VALUE(CLEAR_DONE)
                done_tag.write((bit<32>)hdr.agg.job, 0);
            }
            bit<48> mac = hdr.ethernet.src;
            bit<32> ip = hdr.ipv4.src;
            hdr.ethernet.src = hdr.ethernet.dst;
            hdr.ethernet.dst = mac;
            hdr.ipv4.src = hdr.ipv4.dst;
            hdr.ipv4.dst = ip;
            hdr.agg.bypass = 1;
            standard.egress_spec = standard.ingress_port;
            return;
        }

        // ---- aggregation

        bit<32> unused;
        bit<SOURCES> unused_senders;
        bit<SOURCES> sender = 0;
        LOOK_AT(meta.at)
        if (hdr.agg.type == packet_type_t.partial) {
            meta.left = 1;
            bit<32> number = hdr.agg.level == 0 ? me : meta.workers + (bit<32>)hdr.agg.worker;
            sender = ((bit<SOURCES>)1) << (bit<8>)number;   // a number that is too large is refused below
            if (number >= SOURCES || (hdr.agg.level == 0 && me >= meta.workers)
                || hdr.agg.count == 0 || hdr.agg.count > meta.expected) {
                events.count(REFUSED);
                drop();
                return;
            }
        } else if (standard.instance_type == INSTANCE_NORMAL) {
            bit<32> last;
            LOOK_AT(meta.next)
            seen.read(last, meta.own);
            if (last != 0 && (int<32>)(now - last) <= 0) {
                if (last == now) { events.count(DUPLICATES); } else { events.count(STALE); }
                drop();
                return;
            }
            seen.write(meta.own, now);
        }
        if (meta.left == 0) {
            drop();
            return;
        }
        LOOK_AT(meta.soon)
        meta.edge = meta.edge + 1;
        meta.left = meta.left - 1;

        bit<32> old_tag;
        bit<32> old_count;
        bit<SOURCES> senders;
        tag.read(old_tag, meta.at);
        count.read(old_count, meta.at);
        sources.read(senders, meta.at);
        bool fresh = old_tag != now;
        old_count = fresh ? 0 : old_count;
        senders = fresh ? 0 : senders;
        bit<32> total = (bit<32>)old_count[30:0] + hdr.agg.count;
        bool complete = false;
        values_t uploaded = hdr.values;
        bit<32> contributed = hdr.agg.count;
        bit<1> was_saturated = hdr.agg.saturated;
        if (old_tag != 0 && (int<32>)(now - old_tag) < 0) {
            events.count(STALE);
        } else if ((senders & sender) != 0) {
            events.count(DUPLICATES);
        } else if (total > meta.expected) {
            events.count(REFUSED);
        } else {
            VALUE_VARIABLES
            bit<1> saturated = hdr.agg.saturated;
            tag.write(meta.at, now);
            EACH_VALUE(ADD_VALUE)
            if (saturated == 1 && was_saturated == 0) { events.count(SATURATED); }
            saturated = saturated | old_count[31:31];
            count.write(meta.at, saturated ++ total[30:0]);
            sources.write(meta.at, senders | sender);
            hdr.agg.saturated = saturated;
            hdr.agg.count = total;
            complete = total == meta.expected;
            events.count(ADDED);
        }
        if (complete) {
            // The result leaves; if neighbours are left, a clone of the packet as it came goes on.
            if (meta.left > 0) { clone_preserving_field_list(CloneType.I2E, RECIRCULATE_SESSION, PRESERVED); }
            hdr.agg.type = packet_type_t.result;
            hdr.agg.level = 0;
            hdr.agg.vertex = meta.target;
            hdr.agg.worker = (bit<16>)meta.owner;
            events.count(RESULTS);
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
        hdr.ipv4.ecn = standard.deq_qdepth >= threshold && (hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2) ? 2w3
            : hdr.ipv4.ecn;
    }
    table ecn {
        actions = { mark; NoAction; }
        default_action = NoAction();
    }
    // A completion's copy, addressed to its worker. The replica's number is the worker's.
    action to_host(bit<48> mac, bit<32> ip) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
    }
    table replica {
        key = { hdr.agg.job: exact; standard.egress_rid: exact; }
        actions = { to_host; NoAction; }
        default_action = NoAction();
        size = WORKERS;
    }
    apply {
        if (standard.egress_port == RECIRCULATE_PORT) {
            recirculate_preserving_field_list(PRESERVED);
        } else {
            if (standard.instance_type == INSTANCE_REPLICATED) { replica.apply(); }
            if (hdr.ipv4.isValid()) { ecn.apply(); }
        }
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
