// A bounded queue of 32-bit numbers in shared memory, for one consumer and one or many producers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "region.hpp"

namespace netfold::host {

class Ring {
   public:
    static std::unique_ptr<Ring> create(std::uint32_t size, bool many_producers, const std::string& name, bool huge);
    static std::unique_ptr<Ring> attach(int fd);

    // As many as fit (or all or none): how many were put in.
    std::size_t enqueue(const std::uint32_t* values, std::size_t count, bool all_or_none);
    std::size_t dequeue(std::uint32_t* values, std::size_t count);
    std::size_t count() const;
    std::uint32_t size() const { return header_->size; }
    bool many_producers() const { return header_->many_producers != 0; }
    int fd() const { return region_->fd(); }

   private:
    static constexpr std::uint64_t magic = 0x676e6972'646c666eULL;  // "nfldring"
    struct Header {
        std::uint64_t magic;
        std::uint32_t size;
        std::uint32_t many_producers;
        alignas(64) std::atomic<std::uint32_t> tail;  // producers' side: positions handed out
        alignas(64) std::atomic<std::uint32_t> head;  // the consumer's side: positions taken
    };
    // With many producers a position is handed out before its value is there: `ready` is position + 1 once it is.
    struct Slot {
        std::atomic<std::uint32_t> ready;
        std::uint32_t value;
    };
    static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

    explicit Ring(std::shared_ptr<Region> region);
    static std::size_t bytes(std::uint32_t size) { return sizeof(Header) + size * sizeof(Slot); }

    std::shared_ptr<Region> region_;
    Header* header_;
    Slot* slots_;
    std::uint32_t mask_;
};

}  // namespace netfold::host
