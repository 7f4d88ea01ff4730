#include "ring.hpp"

#include <algorithm>
#include <stdexcept>

namespace netfold::host {

Ring::Ring(std::shared_ptr<Region> region)
    : region_(std::move(region)),
      header_(reinterpret_cast<Header*>(region_->data())),
      slots_(reinterpret_cast<Slot*>(region_->data() + sizeof(Header))),
      mask_(header_->size - 1) {}

std::unique_ptr<Ring> Ring::create(std::uint32_t size, bool many_producers, const std::string& name, bool huge) {
    if (size < 2 || size > 1u << 30 || (size & (size - 1))) throw std::invalid_argument("ring: size is no power of two");
    auto region = Region::create(bytes(size), name, huge);
    auto* header = new (region->data()) Header{};
    header->size = size;
    header->many_producers = many_producers;
    header->magic = magic;
    return std::unique_ptr<Ring>(new Ring(std::move(region)));
}

std::unique_ptr<Ring> Ring::attach(int fd) {
    auto region = Region::attach(fd);
    const auto* header = reinterpret_cast<const Header*>(region->data());
    if (region->size() < sizeof(Header) || header->magic != magic || region->size() < bytes(header->size)) {
        throw std::invalid_argument("ring: this descriptor holds none");
    }
    return std::unique_ptr<Ring>(new Ring(std::move(region)));
}

std::size_t Ring::enqueue(const std::uint32_t* values, std::size_t count, bool all_or_none) {
    std::uint32_t tail = header_->tail.load(std::memory_order_relaxed);
    std::size_t n = 0;
    for (;;) {
        const std::uint32_t head = header_->head.load(std::memory_order_acquire);
        const auto used = std::int32_t(tail - head);
        if (used < 0) {  // others moved on since `tail` was read
            tail = header_->tail.load(std::memory_order_relaxed);
            continue;
        }
        n = std::min(count, std::size_t(header_->size - std::uint32_t(used)));
        if (n == 0 || (all_or_none && n < count)) return 0;
        if (!header_->many_producers) break;
        if (header_->tail.compare_exchange_weak(tail, tail + std::uint32_t(n), std::memory_order_relaxed)) break;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
        Slot& slot = slots_[(tail + i) & mask_];
        slot.value = values[i];
        if (header_->many_producers) slot.ready.store(tail + i + 1, std::memory_order_release);
    }
    if (!header_->many_producers) header_->tail.store(tail + std::uint32_t(n), std::memory_order_release);
    return n;
}

std::size_t Ring::dequeue(std::uint32_t* values, std::size_t count) {
    const std::uint32_t head = header_->head.load(std::memory_order_relaxed);
    const std::uint32_t tail = header_->tail.load(std::memory_order_acquire);
    const std::size_t most = std::min(count, std::size_t(tail - head));
    std::size_t n = 0;
    for (; n < most; ++n) {
        const std::uint32_t at = head + std::uint32_t(n);
        const Slot& slot = slots_[at & mask_];
        if (header_->many_producers && slot.ready.load(std::memory_order_acquire) != at + 1) break;
        values[n] = slot.value;
    }
    header_->head.store(head + std::uint32_t(n), std::memory_order_release);
    return n;
}

std::size_t Ring::count() const {
    const std::uint32_t head = header_->head.load(std::memory_order_acquire);
    const auto used = std::int32_t(header_->tail.load(std::memory_order_acquire) - head);
    return std::size_t(std::clamp(used, 0, std::int32_t(header_->size)));
}

}  // namespace netfold::host
