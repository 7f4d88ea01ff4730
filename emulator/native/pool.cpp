#include "pool.hpp"

#include <limits>
#include <stdexcept>

namespace netfold::host {

Pool::Pool(std::shared_ptr<Region> region)
    : region_(std::move(region)),
      header_(reinterpret_cast<Header*>(region_->data())),
      mbufs_(reinterpret_cast<Mbuf*>(region_->data() + sizeof(Header))),
      buffers_(region_->data() + buffers_offset(header_->count)) {}

std::unique_ptr<Pool> Pool::create(std::uint32_t count, std::uint32_t data_room, const std::string& name, bool huge) {
    if (count < 1 || count > 1u << 28) throw std::invalid_argument("mempool: count must be 1 to 2^28");
    if (data_room < 64 || data_room > std::numeric_limits<std::uint16_t>::max() - headroom) {
        throw std::invalid_argument("mempool: data_room must be 64 to 65407 bytes");
    }
    const std::uint32_t stride = (headroom + data_room + 63) / 64 * 64;
    auto region = Region::create(buffers_offset(count) + std::size_t{count} * stride, name, huge);
    auto* header = new (region->data()) Header{};
    header->count = count;
    header->data_room = data_room;
    header->stride = stride;
    header->magic = magic;
    auto pool = std::unique_ptr<Pool>(new Pool(std::move(region)));
    for (std::uint32_t i = 0; i < count; ++i) pool->mbufs_[i].next.store(i + 1 < count ? i + 2 : 0);
    header->head.store(1);
    return pool;
}

std::unique_ptr<Pool> Pool::attach(int fd) {
    auto region = Region::attach(fd);
    const auto* header = reinterpret_cast<const Header*>(region->data());
    if (region->size() < sizeof(Header) || header->magic != magic ||
        region->size() < buffers_offset(header->count) + std::size_t{header->count} * header->stride) {
        throw std::invalid_argument("mempool: this descriptor holds none");
    }
    return std::unique_ptr<Pool>(new Pool(std::move(region)));
}

bool Pool::alloc(std::uint32_t* out, std::size_t count) {
    if (count == 0) return true;
    std::uint64_t head = header_->head.load(std::memory_order_acquire);
    for (;;) {
        // Walks a list that others may change meanwhile: every number in it is a buffer's, and the exchange fails.
        std::uint32_t next = std::uint32_t(head);
        std::size_t n = 0;
        for (; n < count && next; ++n) {
            out[n] = next - 1;
            next = mbufs_[next - 1].next.load(std::memory_order_relaxed);
        }
        if (n < count) {
            const std::uint64_t now = header_->head.load(std::memory_order_acquire);
            if (now == head) return false;
            head = now;
            continue;
        }
        const std::uint64_t tag = (head >> 32) + 1;
        if (header_->head.compare_exchange_weak(head, tag << 32 | next, std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
            break;
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        Mbuf& m = mbufs_[out[i]];
        m.data_off = headroom;
        m.data_len = m.port = 0;
        m.timestamp_ns = 0;
        m.refcnt.store(1, std::memory_order_relaxed);
    }
    header_->in_use.fetch_add(std::int64_t(count), std::memory_order_relaxed);
    return true;
}

void Pool::push(std::uint32_t first, std::uint32_t last, std::int64_t count) {
    std::uint64_t head = header_->head.load(std::memory_order_relaxed);
    std::uint64_t changed = 0;
    do {
        mbufs_[last].next.store(std::uint32_t(head), std::memory_order_relaxed);
        changed = ((head >> 32) + 1) << 32 | (first + 1);
    } while (!header_->head.compare_exchange_weak(head, changed, std::memory_order_release, std::memory_order_relaxed));
    header_->in_use.fetch_sub(count, std::memory_order_relaxed);
}

void Pool::release(const std::uint32_t* mbufs, std::size_t count) {
    std::uint32_t first = 0, last = 0;
    std::int64_t freed = 0;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t index = mbufs[i];
        if (index >= header_->count) {
            ++wrong;
            continue;
        }
        std::uint32_t references = mbufs_[index].refcnt.load(std::memory_order_relaxed);
        while (references && !mbufs_[index].refcnt.compare_exchange_weak(references, references - 1,
                                                                         std::memory_order_acq_rel)) {
        }
        if (references == 0) ++wrong;
        if (references != 1) continue;
        if (freed++ == 0) {
            last = index;
        } else {
            mbufs_[index].next.store(first + 1, std::memory_order_relaxed);
        }
        first = index;
    }
    if (freed) push(first, last, freed);
    if (wrong) throw std::invalid_argument("mempool: an mbuf was free already or is not of this pool");
}

void Pool::share(const std::uint32_t* mbufs, std::size_t count) {
    check(mbufs, count);
    for (std::size_t i = 0; i < count; ++i) mbufs_[mbufs[i]].refcnt.fetch_add(1, std::memory_order_relaxed);
}

void Pool::check(const std::uint32_t* mbufs, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
        if (mbufs[i] >= header_->count || mbufs_[mbufs[i]].refcnt.load(std::memory_order_relaxed) == 0) {
            throw std::invalid_argument("mempool: an mbuf is free or not of this pool");
        }
    }
}

}  // namespace netfold::host
