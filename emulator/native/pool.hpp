// Packet buffers in shared memory, known by their numbers. Any process that has the pool may take and give back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "region.hpp"

namespace netfold::host {

struct Mbuf {
    std::atomic<std::uint32_t> refcnt;  // 0: in the pool
    std::atomic<std::uint32_t> next;    // of the free list: a buffer's number + 1, 0 at its end
    std::uint16_t data_off;             // from the start of the buffer
    std::uint16_t data_len;
    std::uint16_t port;                 // it came in on
    std::int64_t timestamp_ns;          // CLOCK_MONOTONIC when it came in
};
static_assert(sizeof(Mbuf) == 24 && std::atomic<std::uint64_t>::is_always_lock_free);

class Pool {
   public:
    static constexpr std::uint16_t headroom = 128;  // RTE_PKTMBUF_HEADROOM

    static std::unique_ptr<Pool> create(std::uint32_t count, std::uint32_t data_room, const std::string& name, bool huge);
    static std::unique_ptr<Pool> attach(int fd);

    // All or none. The buffers come empty, with their whole headroom and one reference.
    bool alloc(std::uint32_t* out, std::size_t count);
    // One reference less to each. Throws, having freed the rest, if one was free already or is none of ours.
    void release(const std::uint32_t* mbufs, std::size_t count);
    void share(const std::uint32_t* mbufs, std::size_t count);  // one reference more
    // Throws unless all are buffers in use.
    void check(const std::uint32_t* mbufs, std::size_t count) const;

    Mbuf& mbuf(std::uint32_t index) const { return mbufs_[index]; }
    std::uint8_t* buffer(std::uint32_t index) const { return buffers_ + std::size_t{index} * header_->stride; }
    std::uint8_t* data(std::uint32_t index) const { return buffer(index) + mbufs_[index].data_off; }
    std::uint32_t count() const { return header_->count; }
    std::uint32_t data_room() const { return header_->data_room; }
    std::uint32_t stride() const { return header_->stride; }
    std::int64_t in_use() const { return header_->in_use.load(std::memory_order_relaxed); }
    const std::shared_ptr<Region>& region() const { return region_; }
    std::size_t mbufs_at() const { return sizeof(Header); }
    std::size_t buffers_at() const { return std::size_t(buffers_ - region_->data()); }

   private:
    static constexpr std::uint64_t magic = 0x6c6f6f70'646c666eULL;  // "nfldpool"
    struct Header {
        std::uint64_t magic;
        std::uint32_t count, data_room, stride, reserved;
        // The free list: low half the first buffer's number + 1, high half a tag that each change raises, so that a
        // list that changed and changed back is not taken for the old one.
        alignas(64) std::atomic<std::uint64_t> head;
        alignas(64) std::atomic<std::int64_t> in_use;
    };

    explicit Pool(std::shared_ptr<Region> region);
    static std::size_t buffers_offset(std::uint32_t count) {
        return (sizeof(Header) + count * sizeof(Mbuf) + 63) / 64 * 64;
    }
    void push(std::uint32_t first, std::uint32_t last, std::int64_t count);

    std::shared_ptr<Region> region_;
    Header* header_;
    Mbuf* mbufs_;
    std::uint8_t* buffers_;
};

}  // namespace netfold::host
