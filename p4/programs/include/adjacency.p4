// Adjacency: a job's blocks, vertices and edges, for switchgnn.p4. `load` packets fill it, since BMv2 has no
// P4Runtime for registers; each goes back to its sender as the acknowledgment, marked bypass.
//
// A `load` carries up to 30 words for array `chunk`, from index `vertex` on. Indices, and the first entry or edge that
// a word names, count from the job's own base: a job can neither load nor name what is another's.

#ifndef NETFOLD_ADJACENCY_P4
#define NETFOLD_ADJACENCY_P4

#define ARRAY_BLOCK_FIRST 0         // block -> its first entry
#define ARRAY_ENTRY_EDGE 1          // entry (block's first + slot) -> its first edge
#define ARRAY_ENTRY_DEGREE 2
#define ARRAY_ENTRY_EXPECTED 3      // contributions that make its sum complete here
#define ARRAY_ENTRY_OWNER 4         // worker
#define ARRAY_EDGE_SLOT 5           // edge -> the neighbour's slot
#define ARRAY_BLOCK_SIZE 6          // block -> its number of slots
#define ARRAY_TAG 7                 // aggregator -> 0: these three clear what an earlier job left behind
#define ARRAY_SEEN 8
#define ARRAY_DONE 9                // worker -> 0

// The slot that the packet comes to `passes` later, if it does. What is there is read for nothing: netfold's engine starts
// loading what such a read names.
#define LOOK_AHEAD(passes, slot) \
    if (meta.left > passes && meta.edges - meta.edge > passes) { \
        edge_slot.read(slot, meta.edges_at + meta.edge + passes); \
        if (slot >= size) { slot = 0; } \
        entry_expected.read(unused, meta.entries_at + first + slot); \
    }

// The packet's words into one array, whose part from `base` on, of `size` words, is the job's.
#define LOAD_WORD(array, base, i) if (hdr.agg.count > i) { array.write(base + hdr.agg.vertex + i, (bit<32>)hdr.values.v##i); }
#define FITS(size) (hdr.agg.vertex < (size) && hdr.agg.count <= (size) - hdr.agg.vertex)

#define LOAD_BLOCK_FIRST(i) LOAD_WORD(block_first, meta.blocks_at, i)
#define LOAD_BLOCK_SIZE(i) LOAD_WORD(block_size, meta.blocks_at, i)
#define LOAD_ENTRY_EDGE(i) LOAD_WORD(entry_edge, meta.entries_at, i)
#define LOAD_ENTRY_DEGREE(i) LOAD_WORD(entry_degree, meta.entries_at, i)
#define LOAD_ENTRY_EXPECTED(i) LOAD_WORD(entry_expected, meta.entries_at, i)
#define LOAD_ENTRY_OWNER(i) LOAD_WORD(entry_owner, meta.entries_at, i)
#define LOAD_EDGE_SLOT(i) LOAD_WORD(edge_slot, meta.edges_at, i)

control Adjacency(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(BLOCKS) block_first;
    register<bit<32>>(BLOCKS) block_size;
    register<bit<32>>(ENTRIES) entry_edge;
    register<bit<32>>(ENTRIES) entry_degree;
    register<bit<32>>(ENTRIES) entry_expected;
    register<bit<32>>(ENTRIES) entry_owner;
    register<bit<32>>(EDGES) edge_slot;

    // Sets meta.refused unless everything that the packet names is the job's.
    apply {
        if (hdr.agg.type == packet_type_t.load) {
            meta.refused = false;
            if (hdr.agg.count == 0 || hdr.agg.count > VALUES_PER_PACKET) { meta.refused = true; }
            else if (hdr.agg.chunk == ARRAY_BLOCK_FIRST && FITS(meta.blocks)) { EACH_VALUE(LOAD_BLOCK_FIRST) }
            else if (hdr.agg.chunk == ARRAY_BLOCK_SIZE && FITS(meta.blocks)) { EACH_VALUE(LOAD_BLOCK_SIZE) }
            else if (hdr.agg.chunk == ARRAY_ENTRY_EDGE && FITS(meta.entries)) { EACH_VALUE(LOAD_ENTRY_EDGE) }
            else if (hdr.agg.chunk == ARRAY_ENTRY_DEGREE && FITS(meta.entries)) { EACH_VALUE(LOAD_ENTRY_DEGREE) }
            else if (hdr.agg.chunk == ARRAY_ENTRY_EXPECTED && FITS(meta.entries)) { EACH_VALUE(LOAD_ENTRY_EXPECTED) }
            else if (hdr.agg.chunk == ARRAY_ENTRY_OWNER && FITS(meta.entries)) { EACH_VALUE(LOAD_ENTRY_OWNER) }
            else if (hdr.agg.chunk == ARRAY_EDGE_SLOT && FITS(meta.edges)) { EACH_VALUE(LOAD_EDGE_SLOT) }
            else if ((hdr.agg.chunk == ARRAY_TAG || hdr.agg.chunk == ARRAY_SEEN) && FITS(meta.aggregators)) { }
            else if (hdr.agg.chunk == ARRAY_DONE && FITS(meta.workers)) { }
            else { meta.refused = true; }
            return;
        }

        // An upload or partial: its block and slot, then the slot that this pass adds to.
        bit<32> first;
        bit<32> size;
        bit<32> owner;
        bit<32> next = 0;
        bit<32> soon = 0;
        bit<32> unused;
        meta.refused = true;
        if ((bit<32>)hdr.agg.block >= meta.blocks) { return; }
        block_first.read(first, meta.blocks_at + (bit<32>)hdr.agg.block);
        block_size.read(size, meta.blocks_at + (bit<32>)hdr.agg.block);
        if (hdr.agg.vertex >= size || (bit<32>)hdr.agg.chunk >= meta.chunks || first >= meta.entries
            || size > meta.entries - first) { return; }
        meta.target = hdr.agg.vertex;
        if (hdr.agg.type == packet_type_t.upload) {
            if (standard.instance_type == INSTANCE_NORMAL) {
                entry_owner.read(owner, meta.entries_at + first + hdr.agg.vertex);
                if ((bit<32>)hdr.agg.worker != owner || hdr.agg.count != 1) { return; }
                entry_edge.read(meta.edge, meta.entries_at + first + hdr.agg.vertex);
                entry_degree.read(meta.left, meta.entries_at + first + hdr.agg.vertex);
            }
            if (meta.left == 0) {
                meta.refused = false;
                return;
            }
            if (meta.edge >= meta.edges) { return; }
            edge_slot.read(meta.target, meta.edges_at + meta.edge);
            if (meta.target >= size) { return; }
            if (standard.instance_type == INSTANCE_NORMAL) { LOOK_AHEAD(1, next) }
            LOOK_AHEAD(2, soon)
        }
        // Below 2^32, as both factors are below 2^16 where they pass.
        if (meta.target >= 65536 || meta.target * meta.chunks + (bit<32>)hdr.agg.chunk >= meta.aggregators
            || hdr.agg.vertex * meta.chunks + (bit<32>)hdr.agg.chunk >= meta.aggregators) { return; }
        entry_expected.read(meta.expected, meta.entries_at + first + meta.target);
        entry_owner.read(meta.owner, meta.entries_at + first + meta.target);
        meta.own = meta.aggregators_at + hdr.agg.vertex * meta.chunks + (bit<32>)hdr.agg.chunk;
        meta.at = meta.aggregators_at + meta.target * meta.chunks + (bit<32>)hdr.agg.chunk;
        meta.next = meta.aggregators_at + next * meta.chunks + (bit<32>)hdr.agg.chunk;
        meta.soon = meta.aggregators_at + soon * meta.chunks + (bit<32>)hdr.agg.chunk;
        meta.refused = false;
    }
}

#endif
