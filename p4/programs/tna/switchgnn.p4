// switchgnn.p4 for Tofino (TNA): the protocol of ../switchgnn.p4 within the chip's limits.
//
// What it does. The same packets in, the same out. What differs is inside: a Tofino register array lies in one stage
// and a packet reaches it once in a pass, so a packet makes passes through a recirculation port, with a header of its
// own in front that says which:
//
//   from a host   upload: is it new, where do its neighbours begin?       -> add (its first neighbour)
//                 partial: is it the sender's first?                      -> add (once)
//   add           into the aggregator of one slot; looks up the next neighbour's -> add; when the sum is whole -> finish
//   finish        owner, saturation, address                              -> out
//   load          writes one of the packet's words into one array         -> load, 30 times, then back to its sender
//
// Passes for a chunk: degree + 1 for an upload, 2 for a partial, 1 more for each sum. The result and the rest of an
// upload part by a mirror: the sum goes on as the packet, the upload as it came goes round as its mirrored copy.
//
// 30 values in one pass. Each value has a register array of its own; a stage has four stateful ALUs, so values take
// stages 4 to 11: control, expected count and dedupe come before, in stages 0 to 3. A RegisterAction returns one 32-bit
// word, so pairs of values in 64-bit arrays (SwitchML) would need a second pass for each sum to read the other half.
//
// Each array's one RegisterAction. control_word {tag, count}: a tag that is not the block's counts as empty, a later one is
// left alone; the returned count says both whether the sum is whole (it equals what is expected) and whether it was
// begun here (it equals what this packet brings), so no second access is needed. Its upper half counts saturated
// contributions. seen, done_seen: the last block + 1, returned is whether that is this block or a later one. sources
// {tag, bitmap}: returned is the bitmap before. values: begun, or added with saturation, an end of int<32> being kept,
// so that a sum that was once clamped shows it (include ends.p4) and nothing but the sum needs to be remembered.
//
// Tables. job, chunk (job, chunk -> its aggregators), source (job, level, worker -> number, bit), worker, replica,
// ipv4_lpm, ecn, as in the v1model program; ecn matches deq_qdepth as a range. A mirror session MIRROR_SESSION must
// lead to RECIRCULATE_PORT.
//
// Memory. 128 + 4 (seen) + 8 (sources) bytes for each aggregator; 10 bytes for each vertex of each block (first edge,
// degree, expected, owner), 8 for each block, 2 for each directed edge. With the defaults, Tofino 1: 32,768 aggregators
// (4.4 MiB), 49,152 entries, 131,072 edges: the adjacency of a few blocks at a time, loaded before they begin.
//
// Not as in the v1model program: a partial whose count would exceed what is expected spoils its aggregator (no SALU
// input is left to compare), which the owner's pull mends; `done` ahead of its turn is taken; entries and edges are one
// address space for all jobs, of which there may be four, told apart by their low bits; clearing is the control plane's;
// duplicates and stale uploads are one count; rounds begin below 32768; counts are below 65536.

#include <core.p4>
#include <tna.p4>
#include "../include/wire.p4"
#include "../include/each_value.p4"

#ifndef AGGREGATORS
#define AGGREGATORS 32768
#endif
#ifndef ENTRIES
#define ENTRIES 49152
#endif
#ifndef EDGES
#define EDGES 131072
#endif
#ifndef WORKERS
#define WORKERS 1024
#endif
#define JOB_BITS 2
#define BLOCK_BITS 10
#define BLOCKS 4096                 // 2^(JOB_BITS + BLOCK_BITS)

#define RECIRCULATE_PORT 9w68       // of pipe 0
#define MIRROR_SESSION 10w1

// events
#define ADDED 0
#define RESULTS 1
#define DUPLICATES 2
#define STALE 3
#define COMPLETIONS 5
#define REFUSED 6
#define OTHER 7

// What a pass is for. The parser tells; `route` corrects it by the job.
enum bit<8> step_t {
    forward = 0, refuse = 1, upload = 2, partial = 3, done = 4, spread = 5, load_begin = 6, add = 7, finish = 8,
    load = 9, turn = 10, nothing = 11   // turn: a load without words left
}

enum bit<8> kind_t {
    plain = 0, replicated = 1, recirculated = 2, mirrored = 3
}

// The arrays that `load` packets fill, by their number in the chunk field.
#define ARRAY_BLOCK_FIRST 0
#define ARRAY_ENTRY_EDGE 1
#define ARRAY_ENTRY_DEGREE 2
#define ARRAY_ENTRY_EXPECTED 3
#define ARRAY_ENTRY_OWNER 4
#define ARRAY_EDGE_SLOT 5
#define ARRAY_BLOCK_SIZE 6

// From ingress to egress.
header bridge_t {
    kind_t kind;
}

// In front of a packet that goes round.
header recirculation_t {
    step_t step;
    bit<8> rotations;               // load: words that have been first, to come
    bit<16> port;                   // load: where it came in
    bit<32> edge;                   // the next edge; load: the next word's index
    bit<32> slot;                   // whose aggregator it is for
    bit<32> left;                   // edges left, this one included; load: words
}

// In front of a mirrored upload: what the rest of it needs.
header mirror_t {
    kind_t kind;
    bit<32> edge;
    bit<32> slot;
    bit<32> left;
}

struct headers_t {
    bridge_t bridge;
    recirculation_t round;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    aggregation_t agg;
    values_t values;
}

struct metadata_t {
    step_t step;
    bool bad_checksum;
    bit<16> block;
    bit<32> slot;
    // of the job
    bit<1> sums;
    bit<1> reports;
    bit<1> counts;
    bit<16> workers;
    bit<16> group;
    bit<9> up_port;
    bit<16> leaf;
    bit<32> base;                   // of the chunk's aggregators
    bit<1> refused;
    bit<1> known;                   // the sender
    bit<16> me;
    bit<32> sender;
    // of the packet
    bit<1> formed;
    bit<32> now;                    // round and block
    bit<32> contribution;           // saturated contributions (16 bits) and all of them (16 bits)
    bit<32> first;
    bit<32> size;
    bit<32> over;                   // negative: the slot is in its block
    bit<32> at;
    bit<32> entry;
    bit<1> adds;
    bit<1> fresh;
    bit<1> complete;
    bit<32> total;
    bit<16> expected;
    bit<16> owner;
    bit<1> again;
    bit<32> senders;
    bit<32> edge;
    bit<16> degree;
    bit<16> next;                   // the slot at `edge`
    bit<32> rest_edge;              // for the rest of an upload
    bit<32> rest_slot;
    bit<32> rest_left;
    bit<16> n;
    bit<16> to;
    bit<8> event;
}

// ---- ingress

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() checksum;
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            RECIRCULATE_PORT: recirculated;
            default: ethernet;
        }
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        checksum.add(hdr.ipv4);
        transition select(hdr.ipv4.ihl) {
            5: ipv4_whole;
            default: accept;
        }
    }
    state ipv4_whole {
        meta.bad_checksum = checksum.verify();
        transition select(hdr.ipv4.protocol, hdr.ipv4.flags, hdr.ipv4.fragment) {
            (PROTOCOL_UDP, 0 &&& 1, 0): udp;
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
        meta.slot = hdr.agg.vertex;
        meta.block = hdr.agg.block;
        transition select(hdr.agg.type, hdr.agg.resend, hdr.agg.bypass, hdr.agg.pull, hdr.agg.level) {
            (packet_type_t.upload, 0, 0, 0, _): upload;
            (packet_type_t.partial, 0, 0, 0, _): partial;
            (packet_type_t.done, _, 0, 0, _): done;
            (packet_type_t.load, _, 0, 0, _): load;
            (packet_type_t.complete, _, 0, 0, 1): spread;
            ((packet_type_t)0, _, _, _, _): refused;
            ((packet_type_t)8 &&& 0xFE, _, _, _, _): values;    // 8, 9
            ((packet_type_t)0 &&& 0xF8, _, _, _, _): values;    // 1 to 7
            default: refused;
        }
    }
    state upload { meta.step = step_t.upload; transition values; }
    state partial { meta.step = step_t.partial; transition values; }
    state done { meta.step = step_t.done; transition values; }
    state load { meta.step = step_t.load_begin; transition values; }
    state spread { meta.step = step_t.spread; transition values; }
    state refused { meta.step = step_t.refuse; transition values; }
    state values {
        packet.extract(hdr.values);
        transition accept;
    }

    state recirculated {
        packet.extract(hdr.round);
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.agg);
        meta.slot = hdr.round.slot;
        meta.step = hdr.round.step;
        transition select(hdr.round.step) {
            step_t.load: turning;
            default: aggregating;
        }
    }
    state turning {
        transition select(hdr.round.left) {
            0: turned;
            default: loading;
        }
    }
    state turned {
        meta.step = step_t.turn;
        transition values;
    }
    state loading {
        meta.block = hdr.round.edge[15:0];
        transition values;
    }
    state aggregating {
        meta.block = hdr.agg.block;
        transition values;
    }
}

struct tagged_t {
    bit<32> tag;
    bit<32> count;
}

// Register arrays of adjacency: read in one kind of pass, written in a load. W: element width.
#define ADJACENCY(array, W, SIZE, INDEX, WORD, OUT) \
    Register<bit<W>, bit<32>>(SIZE) array; \
    RegisterAction<bit<W>, bit<32>, bit<W>>(array) array##_get = { \
        void apply(inout bit<W> value, out bit<W> result) { result = value; } \
    }; \
    RegisterAction<bit<W>, bit<32>, bit<W>>(array) array##_set = { \
        void apply(inout bit<W> value, out bit<W> result) { value = WORD; result = value; } \
    }; \
    action array##_read() { OUT = array##_get.execute(INDEX); } \
    action array##_load() { array##_set.execute(INDEX); }

@pa_auto_init_metadata              // flags are read in passes that do not set them: they begin as zero
control SwitchIngress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
                      in ingress_intrinsic_metadata_from_parser_t parsed,
                      inout ingress_intrinsic_metadata_for_deparser_t deparser_md,
                      inout ingress_intrinsic_metadata_for_tm_t tm_md) {

    Counter<bit<32>, bit<8>>(8, CounterType_t.PACKETS) events;
    Counter<bit<32>, bit<1>>(1, CounterType_t.PACKETS) saturated;   // sums that are not exact

    action drop() {
        deparser_md.drop_ctl = 1;
    }
    action refuse() {
        meta.refused = 1;
    }
    action go_round() {
        tm_md.ucast_egress_port = RECIRCULATE_PORT;
        hdr.bridge.kind = kind_t.recirculated;
    }

    // ---- forwarding

    action forward(bit<9> port, bit<48> mac) {
        tm_md.ucast_egress_port = port;
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

    // ---- jobs and senders

    action set_job(bit<16> workers, bit<16> group) {
        meta.sums = 1;
        meta.counts = 1;
        meta.workers = workers;
        meta.group = group;
    }
    action set_leaf(bit<16> workers, bit<16> group, bit<9> up_port, bit<16> leaf) {
        meta.sums = 1;
        meta.counts = 1;
        meta.reports = 1;
        meta.workers = workers;
        meta.group = group;
        meta.up_port = up_port;
        meta.leaf = leaf;
    }
    action set_spine(bit<16> leaves, bit<16> group) {
        meta.counts = 1;
        meta.workers = leaves;
        meta.group = group;
    }
    action transit() { }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { set_job; set_leaf; set_spine; transit; refuse; }
        default_action = refuse();
        size = 256;
    }

    action set_chunk(bit<32> base) {
        meta.base = base;
        meta.formed = 1;
    }
    table chunk {
        key = { hdr.agg.job: exact; hdr.agg.chunk: exact; }
        actions = { set_chunk; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    action set_source(bit<16> number, bit<32> one_bit) {
        meta.me = number;
        meta.sender = one_bit;
        meta.known = 1;
    }
    table source {
        key = { hdr.agg.job: exact; hdr.agg.level: exact; hdr.agg.worker: exact; }
        actions = { set_source; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    // The job decides whether a packet for a switch is for this one.
    action pass_on() {
        meta.step = step_t.forward;
    }
    action stop() {
        meta.step = step_t.nothing;
        meta.refused = 1;
    }
    table route {
        key = { meta.step: exact; meta.sums: exact; meta.reports: ternary; meta.counts: ternary; }
        actions = { pass_on; stop; NoAction; }
        default_action = NoAction();
        const entries = {
            (step_t.add, 0, _, _): stop();          // the job was taken away meanwhile
            (step_t.finish, 0, _, _): stop();
            (step_t.load, 0, _, _): stop();
            (step_t.turn, 0, _, _): stop();
            (step_t.upload, 0, _, _): pass_on();
            (step_t.partial, 0, _, _): pass_on();
            (step_t.load_begin, 0, _, _): pass_on();
            (step_t.done, 0, _, 0): pass_on();
            (step_t.spread, 0, _, _): pass_on();
            (step_t.spread, 1, 0, _): pass_on();
        }
        size = 16;
    }

    // ---- a packet's places

    action note() {
        meta.now = hdr.agg.round ++ hdr.agg.block;
        meta.contribution = 15w0 ++ hdr.agg.saturated ++ hdr.agg.count[15:0];
        meta.to = hdr.agg.worker;
    }
    action place() {
        meta.at = meta.base + meta.slot;
        meta.entry = meta.first + meta.slot;
        meta.over = meta.slot - meta.size;
    }
    action place_adding() {
        place();
        meta.edge = hdr.round.edge;
    }
    action place_load() {
        meta.entry = hdr.round.edge;
        meta.edge = hdr.round.edge;
    }
    table places {
        key = { meta.step: exact; }
        actions = { place; place_adding; place_load; NoAction; }
        default_action = NoAction();
        const entries = {
            (step_t.upload): place();
            (step_t.partial): place();
            (step_t.finish): place();
            (step_t.add): place_adding();
            (step_t.load): place_load();
        }
        size = 8;
    }

    // ---- adjacency

#define BLOCK_INDEX (bit<32>)(hdr.agg.job[JOB_BITS-1:0] ++ meta.block[BLOCK_BITS-1:0])
#define WORD32 (bit<32>)hdr.values.v0
#define WORD16 hdr.values.v0[15:0]
    ADJACENCY(block_first, 32, BLOCKS, BLOCK_INDEX, WORD32, meta.first)
    ADJACENCY(block_size, 32, BLOCKS, BLOCK_INDEX, WORD32, meta.size)
    ADJACENCY(entry_edge, 32, ENTRIES, meta.entry, WORD32, meta.edge)
    ADJACENCY(entry_degree, 16, ENTRIES, meta.entry, WORD16, meta.degree)
    ADJACENCY(entry_expected, 16, ENTRIES, meta.entry, WORD16, meta.expected)
    ADJACENCY(entry_owner, 16, ENTRIES, meta.entry, WORD16, meta.owner)
    ADJACENCY(edge_slot, 16, EDGES, meta.edge, WORD16, meta.next)

    // One table for each array: what reads it, and the load that fills it. READERS: steps.
#define ARRAY_TABLE(array, NUMBER, READERS) \
    table array##_pass { \
        key = { meta.step: exact; hdr.agg.chunk: ternary; } \
        actions = { array##_read; array##_load; NoAction; } \
        default_action = NoAction(); \
        const entries = { \
            (step_t.load, NUMBER): array##_load(); \
            READERS \
        } \
        size = 8; \
    }
#define READ_BY(s, array) (step_t.s, _): array##_read();
    ARRAY_TABLE(block_first, ARRAY_BLOCK_FIRST, READ_BY(upload, block_first) READ_BY(partial, block_first)
                READ_BY(add, block_first) READ_BY(finish, block_first))
    ARRAY_TABLE(block_size, ARRAY_BLOCK_SIZE, READ_BY(upload, block_size) READ_BY(partial, block_size)
                READ_BY(done, block_size))
    ARRAY_TABLE(entry_edge, ARRAY_ENTRY_EDGE, READ_BY(upload, entry_edge))
    ARRAY_TABLE(entry_degree, ARRAY_ENTRY_DEGREE, READ_BY(upload, entry_degree))
    ARRAY_TABLE(entry_expected, ARRAY_ENTRY_EXPECTED, READ_BY(add, entry_expected))
    ARRAY_TABLE(entry_owner, ARRAY_ENTRY_OWNER, READ_BY(upload, entry_owner) READ_BY(finish, entry_owner))
    ARRAY_TABLE(edge_slot, ARRAY_EDGE_SLOT, READ_BY(upload, edge_slot) READ_BY(add, edge_slot))

    // The slot is one of its block's, and there is such a chunk and block.
#define IN_BLOCK meta.over[31:31] == 1 && meta.formed == 1 && meta.slot[31:16] == 0 && meta.block[15:BLOCK_BITS] == 0

    // ---- what was there before

    // Is this block, or a later one, in the array already? If not, it is now.
#define SEEN_ACTION(array, SIZE, action_name) \
    Register<bit<32>, bit<32>>(SIZE) array; \
    RegisterAction<bit<32>, bit<32>, bit<1>>(array) action_name = { \
        void apply(inout bit<32> value, out bit<1> before) { \
            if ((int<32>)(value - meta.now) > 0) { before = 1; } else { value = meta.now + 1; before = 0; } \
        } \
    };
    SEEN_ACTION(seen, AGGREGATORS, see)
    SEEN_ACTION(done_seen, WORKERS, see_done)

    Register<tagged_t, bit<32>>(AGGREGATORS) sources;
    RegisterAction<tagged_t, bit<32>, bit<32>>(sources) see_source = {
        void apply(inout tagged_t value, out bit<32> before) {
            if (value.tag == meta.now) {
                before = value.count;
                value.count = value.count | meta.sender;
            } else {
                before = 0;
                value.count = meta.sender;
            }
            value.tag = meta.now;
        }
    };

    // ---- aggregators

    Register<tagged_t, bit<32>>(AGGREGATORS) control_word;
    RegisterAction<tagged_t, bit<32>, bit<32>>(control_word) contribute = {
        void apply(inout tagged_t value, out bit<32> total) {
            if (value.tag == meta.now) {
                value.count = value.count + meta.contribution;
                total = value.count;
            } else if ((int<32>)(value.tag - meta.now) > 0) {
                total = 0;
            } else {
                value.count = meta.contribution;
                value.tag = meta.now;
                total = value.count;
            }
        }
    };
#define MOST 32s0x7FFFFFFF
#define LEAST (int<32>)32w0x80000000
    // A sum begun and whole at once is the packet's own values.
#define VALUE(i) \
    Register<int<32>, bit<32>>(AGGREGATORS) value##i; \
    RegisterAction<int<32>, bit<32>, int<32>>(value##i) begin##i = { \
        void apply(inout int<32> value, out int<32> sum) { value = hdr.values.v##i; sum = value; } \
    }; \
    RegisterAction<int<32>, bit<32>, int<32>>(value##i) add##i = { \
        void apply(inout int<32> value, out int<32> sum) { \
            if (value != MOST && value != LEAST) { value = value |+| hdr.values.v##i; } \
            sum = value; \
        } \
    }; \
    action begin_value##i() { begin##i.execute(meta.at); } \
    action add_value##i() { add##i.execute(meta.at); } \
    action read_value##i() { hdr.values.v##i = add##i.execute(meta.at); } \
    table aggregate##i { \
        key = { meta.adds: exact; meta.fresh: exact; meta.complete: exact; } \
        actions = { begin_value##i; add_value##i; read_value##i; NoAction; } \
        default_action = NoAction(); \
        const entries = { \
            (1, 1, 0): begin_value##i(); \
            (1, 1, 1): begin_value##i(); \
            (1, 0, 0): add_value##i(); \
            (1, 0, 1): read_value##i(); \
        } \
        size = 8; \
    }
    EACH_VALUE(VALUE)
#define APPLY_VALUE(i) aggregate##i.apply();

#include "ends.p4"

    // The packet becomes the sum for its slot, and goes round once more to find its owner.
    action become_sum() {
        hdr.agg.type = packet_type_t.result;
        hdr.agg.level = 0;
        hdr.agg.vertex = meta.slot;
        hdr.agg.count = 16w0 ++ meta.total[15:0];
        hdr.round.step = step_t.finish;
        go_round();
    }
    // The rest of an upload goes round as a copy of the packet as it came.
    action mirror_rest() {
        deparser_md.mirror_type = 1;
    }
    action note_rest() {
        meta.rest_edge = meta.edge + 1;
        meta.rest_slot = 16w0 ++ meta.next;
        meta.rest_left = hdr.round.left - 1;
    }
    action next_neighbour() {
        hdr.round.edge = meta.rest_edge;
        hdr.round.left = meta.rest_left;
        hdr.round.slot = meta.rest_slot;
        go_round();
    }
    action begin_upload() {
        hdr.round = { step_t.add, 0, 0, meta.edge + 1, 16w0 ++ meta.next, 16w0 ++ meta.degree };
        go_round();
    }
    action begin_partial() {
        hdr.round = { step_t.add, 0, 0, 0, meta.slot, 1 };
        go_round();
    }

    // ---- sums and completions to workers

    action to_worker(bit<9> port, bit<48> mac, bit<32> ip) {
        tm_md.ucast_egress_port = port;
        hdr.agg.worker = meta.to;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
        hdr.udp.checksum = 0;
    }
    action to_remote_worker(bit<9> port, bit<48> mac, bit<32> ip) {
        to_worker(port, mac, ip);
        hdr.agg.type = packet_type_t.partial;
        hdr.agg.level = 1;
        hdr.agg.worker = meta.leaf;
    }
    table worker {
        key = { hdr.agg.job: exact; meta.to: exact @name("worker"); }
        actions = { to_worker; to_remote_worker; drop; }
        default_action = drop();
        size = WORKERS;
    }

    // ---- blocks

    Register<tagged_t, bit<32>>(256) done_counts;
    RegisterAction<tagged_t, bit<32>, bit<16>>(done_counts) count_done = {
        void apply(inout tagged_t value, out bit<16> n) {
            if (value.tag == meta.now) {
                value.count = value.count + 1;
                n = value.count[15:0];
            } else if ((int<32>)(value.tag - meta.now) > 0) {
                n = 0;
            } else {
                value.count = 1;
                value.tag = meta.now;
                n = 1;
            }
        }
    };
    RegisterAction<tagged_t, bit<32>, bit<16>>(done_counts) get_done = {
        void apply(inout tagged_t value, out bit<16> n) {
            if (value.tag == meta.now) { n = value.count[15:0]; } else { n = 0; }
        }
    };
    action note_done() { meta.n = count_done.execute((bit<32>)hdr.agg.job); }
    action look_done() { meta.n = get_done.execute((bit<32>)hdr.agg.job); }
    table done_pass {
        key = { meta.again: exact; }
        actions = { note_done; look_done; }
        const default_action = note_done();
        const entries = { (1): look_done(); }
        size = 2;
    }
    action report() {
        hdr.agg.level = 1;
        hdr.agg.worker = meta.leaf;
        hdr.udp.checksum = 0;
        tm_md.ucast_egress_port = meta.up_port;
    }
    action spread() {
        hdr.agg.level = 0;
        hdr.udp.checksum = 0;
        tm_md.mcast_grp_a = meta.group;
        hdr.bridge.kind = kind_t.replicated;
    }
    action complete() {
        hdr.agg.type = packet_type_t.complete;
        hdr.udp.checksum = 0;
        tm_md.mcast_grp_a = meta.group;
        hdr.bridge.kind = kind_t.replicated;
    }

    // ---- loading

#define KEEP(i, j) hdr.values.v##i = hdr.values.v##j;
    action begin_load() {
        hdr.round = { step_t.load, VALUES_PER_PACKET, 7w0 ++ intrinsic.ingress_port, hdr.agg.vertex, 0, hdr.agg.count };
        go_round();
    }
    // The next word to the front, the first one to the end: after 30 the packet is as it was.
    action rotate() {
        int<32> first = hdr.values.v0;
        KEEP(0, 1) KEEP(1, 2) KEEP(2, 3) KEEP(3, 4) KEEP(4, 5) KEEP(5, 6) KEEP(6, 7) KEEP(7, 8) KEEP(8, 9)
        KEEP(9, 10) KEEP(10, 11) KEEP(11, 12) KEEP(12, 13) KEEP(13, 14) KEEP(14, 15) KEEP(15, 16) KEEP(16, 17)
        KEEP(17, 18) KEEP(18, 19) KEEP(19, 20) KEEP(20, 21) KEEP(21, 22) KEEP(22, 23) KEEP(23, 24) KEEP(24, 25)
        KEEP(25, 26) KEEP(26, 27) KEEP(27, 28) KEEP(28, 29)
        hdr.values.v29 = first;
    }
    action next_word() {
        go_round();
        hdr.round.edge = hdr.round.edge + 1;
        hdr.round.left = hdr.round.left |-| 1;
        hdr.round.rotations = hdr.round.rotations - 1;
    }
    action acknowledge() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> ip = hdr.ipv4.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = ip;
        hdr.agg.bypass = 1;
        hdr.round.setInvalid();
        tm_md.ucast_egress_port = hdr.round.port[8:0];
    }

    apply {
        hdr.bridge.setValid();
        hdr.bridge.kind = kind_t.plain;
        meta.event = OTHER;
        if (meta.step != step_t.forward && meta.step != step_t.refuse) {
            note();
            job.apply();
            chunk.apply();
            source.apply();
            block_first_pass.apply();
            block_size_pass.apply();
            places.apply();
            route.apply();
        }
        entry_expected_pass.apply();
        entry_owner_pass.apply();
        entry_edge_pass.apply();
        entry_degree_pass.apply();
        edge_slot_pass.apply();

        if (!hdr.ipv4.isValid()) {
            drop();
        } else if (meta.bad_checksum || meta.refused == 1 || meta.step == step_t.refuse) {
            meta.event = REFUSED;
            drop();
        } else if (meta.step == step_t.forward) {
            if (hdr.ipv4.ttl == 0 || hdr.ipv4.ttl == 1) {
                drop();
            } else {
                if (hdr.ipv4.ihl != 5) {    // RFC 1141
                    if (hdr.ipv4.checksum[15:8] == 0xFF) { hdr.ipv4.checksum = hdr.ipv4.checksum + 0x101; }
                    else { hdr.ipv4.checksum = hdr.ipv4.checksum + 0x100; }
                }
                ipv4_lpm.apply();
            }
        } else if (meta.step == step_t.upload) {
            if (IN_BLOCK && meta.owner == hdr.agg.worker && hdr.agg.count == 1) {
                meta.again = see.execute(meta.at);
                if (meta.again == 1) {
                    meta.event = DUPLICATES;
                    drop();
                } else if (meta.degree == 0) {
                    drop();
                } else {
                    begin_upload();
                }
            } else {
                meta.event = REFUSED;
                drop();
            }
        } else if (meta.step == step_t.partial) {
            if (IN_BLOCK && meta.known == 1 && hdr.agg.count[31:16] == 0 && hdr.agg.count[15:0] != 0) {
                meta.senders = see_source.execute(meta.at);
                meta.senders = meta.senders & meta.sender;
                if (meta.senders != 0) {
                    meta.event = DUPLICATES;
                    drop();
                } else {
                    begin_partial();
                }
            } else {
                meta.event = REFUSED;
                drop();
            }
        } else if (meta.step == step_t.add) {
            meta.total = contribute.execute(meta.at);
            if (meta.total == 0) { meta.adds = 0; } else { meta.adds = 1; }
            if (meta.total == meta.contribution) { meta.fresh = 1; }
            if (meta.total[15:0] == meta.expected) { meta.complete = 1; }
            EACH_VALUE(APPLY_VALUE)
            note_rest();
            if (meta.adds == 1) { meta.event = ADDED; } else { meta.event = STALE; }
            if (meta.adds == 1 && meta.complete == 1) {
                if (hdr.round.left != 1) { mirror_rest(); }
                become_sum();
                if (meta.total[31:16] != 0) { hdr.agg.saturated = 1; }
            } else if (hdr.round.left != 1) {
                next_neighbour();
            } else {
                drop();
            }
        } else if (meta.step == step_t.finish) {
            meta.event = RESULTS;
            meta.to = meta.owner;
            hdr.round.setInvalid();
            ends_low.apply();
            ends_high.apply();
            if (hdr.agg.saturated == 1) { saturated.count(0); }
            worker.apply();
        } else if (meta.step == step_t.done) {
            if (meta.known == 1 && (meta.sums == 0 || (meta.size != 0 && meta.block[15:BLOCK_BITS] == 0))) {
                meta.again = see_done.execute((bit<32>)meta.me);
                done_pass.apply();
                if (meta.n == 0) {              // a later block has begun: this one was completed
                    meta.event = STALE;
                    hdr.agg.type = packet_type_t.complete;
                    worker.apply();
                } else if (meta.n != meta.workers) {
                    drop();
                } else if (meta.reports == 1) {
                    report();
                } else if (meta.again == 0) {
                    meta.event = COMPLETIONS;
                    complete();
                } else {                        // its completion was lost: to this worker once more
                    meta.event = DUPLICATES;
                    hdr.agg.type = packet_type_t.complete;
                    worker.apply();
                }
            } else {
                meta.event = REFUSED;
                drop();
            }
        } else if (meta.step == step_t.spread) {
            meta.event = COMPLETIONS;
            spread();
        } else if (meta.step == step_t.load_begin) {
            if (hdr.agg.chunk[15:3] == 0 && hdr.agg.chunk[2:0] != 7 && hdr.agg.count[31:5] == 0
                && hdr.agg.count[4:0] != 31 && hdr.agg.count[4:0] != 0) {
                begin_load();
            } else {
                meta.event = REFUSED;
                drop();
            }
        } else if (meta.step == step_t.load || meta.step == step_t.turn) {
            rotate();
            if (hdr.round.rotations != 1) { next_word(); } else { acknowledge(); }
        }
        events.count(meta.event);
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t deparser_md) {
    Mirror() mirror;
    apply {
        if (deparser_md.mirror_type == 1) {
            mirror.emit<mirror_t>(MIRROR_SESSION, { kind_t.mirrored, meta.rest_edge, meta.rest_slot,
                                                    meta.rest_left });
        }
        packet.emit(hdr);
    }
}

// ---- egress: ECN, the copies of completions, and what goes round

struct egress_headers_t {
    bridge_t bridge;
    mirror_t mirror;
    recirculation_t round;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    aggregation_t agg;
}

struct egress_metadata_t {
    bool whole;                     // the IPv4 header has no options: its checksum can be made
    bit<1> replicated;
}

parser EgressParser(packet_in packet, out egress_headers_t hdr, out egress_metadata_t meta,
                    out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition select(packet.lookahead<bit<8>>()) {
            (bit<8>)kind_t.mirrored: mirrored;
            (bit<8>)kind_t.recirculated: recirculated;
            (bit<8>)kind_t.replicated: replicated;
            default: plain;
        }
    }
    state mirrored {
        packet.extract(hdr.mirror);
        packet.extract(hdr.round);
        transition accept;
    }
    state recirculated {
        packet.extract(hdr.bridge);
        transition accept;
    }
    state replicated {
        meta.replicated = 1;
        transition plain;
    }
    state plain {
        packet.extract(hdr.bridge);
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.fragment) {
            (PROTOCOL_UDP, 5, 0 &&& 1, 0): udp;
            (_, 5, _, _): whole;
            default: accept;
        }
    }
    state whole {
        meta.whole = true;
        transition accept;
    }
    state udp {
        meta.whole = true;
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            AGGREGATION_PORT: aggregation;
            default: accept;
        }
    }
    state aggregation {
        packet.extract(hdr.agg);
        transition accept;
    }
}

control SwitchEgress(inout egress_headers_t hdr, inout egress_metadata_t meta,
                     in egress_intrinsic_metadata_t intrinsic,
                     in egress_intrinsic_metadata_from_parser_t parsed,
                     inout egress_intrinsic_metadata_for_deparser_t deparser_md,
                     inout egress_intrinsic_metadata_for_output_port_t port_md) {
    action mark() {
        hdr.ipv4.ecn = 3;
    }
    // Entries: for ECN 1 and 2, deq_qdepth from the threshold up.
    table ecn {
        key = { hdr.ipv4.ecn: exact; intrinsic.deq_qdepth: range; }
        actions = { mark; NoAction; }
        default_action = NoAction();
        size = 8;
    }
    action to_host(bit<48> mac, bit<32> ip) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
    }
    table replica {
        key = { hdr.agg.job: exact; intrinsic.egress_rid: exact; }
        actions = { to_host; NoAction; }
        default_action = NoAction();
        size = WORKERS;
    }
    apply {
        if (hdr.mirror.isValid()) {
            hdr.round.edge = hdr.mirror.edge;
            hdr.round.slot = hdr.mirror.slot;
            hdr.round.left = hdr.mirror.left;
        }
        if (meta.replicated == 1) { replica.apply(); }
        if (meta.whole) { ecn.apply(); }
    }
}

control EgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t deparser_md) {
    Checksum() checksum;
    apply {
        if (meta.whole) {
            hdr.ipv4.checksum = checksum.update({ hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn,
                hdr.ipv4.length, hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl,
                hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        }
        packet.emit(hdr.round);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.agg);
    }
}

Pipeline(IngressParser(), SwitchIngress(), IngressDeparser(), EgressParser(), SwitchEgress(), EgressDeparser()) pipe;
Switch(pipe) main;
