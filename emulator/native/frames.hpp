// What an endpoint does for every frame of a propagation: building uploads and taking results in. Everything that is
// the wire format's comes from the caller: a template, masks and offsets made from wire.p4. No state is kept here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace netfold::host {

// Byte offsets in a frame. vertex and count are 32 bits wide, chunk 16, the values 32 each; network byte order.
struct Layout {
    std::int64_t ipv4, flags, vertex, chunk, count, values;
    std::int64_t number;     // of values
    std::int64_t saturated;  // bits of the flags byte that a sum may carry or not

    bool fits(std::size_t frame_bytes) const;
};

struct Uploads {
    const std::uint8_t* pattern;  // a whole frame, all but vertex, chunk and values
    const std::int64_t* slots;    // of each own vertex
    const std::int64_t* rows;     // of each own vertex, in `values`
    std::size_t own;
    const std::int32_t* values;  // [value_rows][chunks][layout.number]
    std::size_t value_rows, chunks;
};

// Uploads first..first + count, chunks of a vertex one after the other. Throws what does not fit.
void make_uploads(std::uint8_t* frames, std::size_t count, std::size_t frame_bytes, const Layout& layout,
                  const Uploads& from, std::size_t first);

struct Results {
    // A result's header must equal one of the patterns where the mask has ones.
    const std::uint8_t* patterns;
    std::size_t pattern_count;
    const std::uint8_t* mask;
    std::size_t header_bytes;
    const std::int64_t* own_of;  // slot -> own vertex or -1
    std::size_t slots;
    const std::int64_t* expected;  // of each own vertex: the count of its sum
    const std::int64_t* rows;      // of each own vertex, in `totals`
    std::size_t own;
    bool* done;            // [own][chunks]
    std::int64_t* totals;  // [total_rows][chunks][layout.number], added to
    std::size_t total_rows, chunks;
};

struct Taken {
    std::int64_t added = 0, copies = 0, saturated = 0;
};

// Adds the frames that are beyond doubt results of this exchange to their totals, each once, and writes 0 into `left`
// for them, 1 for all others: those are for the caller to look at. Throws if the arrays do not fit together.
Taken take_results(const std::uint8_t* frames, const std::int64_t* lengths, std::size_t count, std::size_t frame_bytes,
                   const Layout& layout, const Results& into, bool* left);

}  // namespace netfold::host
