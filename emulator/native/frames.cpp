#include "frames.hpp"

#include <cstring>
#include <stdexcept>

namespace netfold::host {
namespace {

constexpr std::int64_t ipv4_bytes = 20;

std::uint32_t get32(const std::uint8_t* p) {
    std::uint32_t v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

void put32(std::uint8_t* p, std::uint32_t v) {
    v = __builtin_bswap32(v);
    std::memcpy(p, &v, sizeof v);
}

std::uint32_t get16(const std::uint8_t* p) { return std::uint32_t(p[0]) << 8 | p[1]; }

// RFC 1071: the header and its checksum add up to all ones.
bool checksum_right(const std::uint8_t* header) {
    std::uint32_t sum = 0;
    for (int i = 0; i < ipv4_bytes; i += 2) sum += get16(header + i);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

bool matches(const std::uint8_t* frame, const std::uint8_t* pattern, const std::uint8_t* mask, std::size_t bytes) {
    std::uint64_t differs = 0;
    for (std::size_t i = 0; i < bytes; i += 8) {
        std::uint64_t a, b, m;
        std::memcpy(&a, frame + i, 8);
        std::memcpy(&b, pattern + i, 8);
        std::memcpy(&m, mask + i, 8);
        differs |= (a ^ b) & m;
    }
    return differs == 0;
}

}  // namespace

bool Layout::fits(std::size_t frame_bytes) const {
    const auto size = std::int64_t(frame_bytes);
    const auto inside = [size](std::int64_t at, std::int64_t bytes) { return at >= 0 && bytes >= 0 && at + bytes <= size; };
    return inside(ipv4, ipv4_bytes) && inside(flags, 1) && inside(vertex, 4) && inside(chunk, 2) && inside(count, 4) &&
           number >= 0 && number <= size && inside(values, 4 * number);
}

void make_uploads(std::uint8_t* frames, std::size_t count, std::size_t frame_bytes, const Layout& layout,
                  const Uploads& from, std::size_t first) {
    if (!layout.fits(frame_bytes)) throw std::invalid_argument("make_uploads: the layout does not fit the frames");
    if (from.chunks < 1 || first + count > from.own * from.chunks) {
        throw std::invalid_argument("make_uploads: there are not that many");
    }
    std::size_t own = first / from.chunks, chunk = first % from.chunks;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint8_t* frame = frames + i * frame_bytes;
        const std::int64_t row = from.rows[own];
        if (row < 0 || std::size_t(row) >= from.value_rows) throw std::invalid_argument("make_uploads: no such row");
        std::memcpy(frame, from.pattern, frame_bytes);
        put32(frame + layout.vertex, std::uint32_t(from.slots[own]));
        frame[layout.chunk] = std::uint8_t(chunk >> 8);
        frame[layout.chunk + 1] = std::uint8_t(chunk);
        const std::int32_t* values = from.values + (std::size_t(row) * from.chunks + chunk) * std::size_t(layout.number);
        for (std::int64_t k = 0; k < layout.number; ++k) {
            put32(frame + layout.values + 4 * k, std::uint32_t(values[k]));
        }
        if (++chunk == from.chunks) {
            chunk = 0;
            ++own;
        }
    }
}

Taken take_results(const std::uint8_t* frames, const std::int64_t* lengths, std::size_t count, std::size_t frame_bytes,
                   const Layout& layout, const Results& into, bool* left) {
    if (!layout.fits(frame_bytes) || into.header_bytes % 8 || into.header_bytes > frame_bytes) {
        throw std::invalid_argument("take_results: the layout does not fit the frames");
    }
    Taken taken;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint8_t* frame = frames + i * frame_bytes;
        left[i] = true;
        if (lengths[i] < std::int64_t(frame_bytes)) continue;
        bool known = false;
        for (std::size_t p = 0; p < into.pattern_count && !known; ++p) {
            known = matches(frame, into.patterns + p * into.header_bytes, into.mask, into.header_bytes);
        }
        if (!known || !checksum_right(frame + layout.ipv4)) continue;
        const std::uint32_t slot = get32(frame + layout.vertex), chunk = get16(frame + layout.chunk);
        if (slot >= into.slots || chunk >= into.chunks || into.own_of[slot] < 0) continue;
        const auto own = std::size_t(into.own_of[slot]);
        if (own >= into.own) throw std::invalid_argument("take_results: no such own vertex");
        if (std::int64_t(get32(frame + layout.count)) != into.expected[own]) continue;
        const std::int64_t row = into.rows[own];
        if (row < 0 || std::size_t(row) >= into.total_rows) throw std::invalid_argument("take_results: no such row");
        left[i] = false;
        if (frame[layout.flags] & layout.saturated) ++taken.saturated;
        bool& done = into.done[own * into.chunks + chunk];
        if (done) {
            ++taken.copies;
            continue;
        }
        done = true;
        ++taken.added;
        std::int64_t* totals = into.totals + (std::size_t(row) * into.chunks + chunk) * std::size_t(layout.number);
        for (std::int64_t k = 0; k < layout.number; ++k) {
            totals[k] += std::int32_t(get32(frame + layout.values + 4 * k));
        }
    }
    return taken;
}

}  // namespace netfold::host
