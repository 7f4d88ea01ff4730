#include "shm_port.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace netfold::host {

std::shared_ptr<Region> ShmPort::create_link(std::uint32_t slots, std::uint32_t frame_bytes, const std::string& name,
                                             bool huge) {
    if (slots < 2 || slots > 1u << 20 || (slots & (slots - 1))) {
        throw std::invalid_argument("net_shm: slots must be a power of two, 2 to 2^20");
    }
    if (frame_bytes < 64 || frame_bytes > 65535) throw std::invalid_argument("net_shm: frames of 64 to 65535 bytes");
    const std::uint32_t stride = (std::uint32_t(sizeof(Slot)) + frame_bytes + 63) / 64 * 64;
    auto region = Region::create(sizeof(Header) + std::size_t{2} * slots * stride, name, huge);
    auto* header = new (region->data()) Header{};
    header->slots = slots;
    header->frame_bytes = frame_bytes;
    header->stride = stride;
    header->magic = magic;
    return region;
}

ShmPort::Header* ShmPort::header_of(const Region& region) {
    auto* h = reinterpret_cast<Header*>(region.data());
    const bool sane = region.size() >= sizeof(Header) && h->magic == magic && h->slots >= 2 &&
                      (h->slots & (h->slots - 1)) == 0 && h->stride >= sizeof(Slot) + h->frame_bytes &&
                      region.size() >= sizeof(Header) + std::size_t{2} * h->slots * h->stride;
    if (!sane) throw std::invalid_argument("net_shm: this descriptor holds no link");
    return h;
}

std::uint32_t ShmPort::link_frame_bytes(const Region& region) { return header_of(region)->frame_bytes; }

ShmPort::ShmPort(std::shared_ptr<Region> region, int side, int socket)
    : region_(std::move(region)),
      header_(header_of(*region_)),
      slots_(header_->slots),
      stride_(header_->stride),
      in_(1 - side),
      out_(side),
      socket_(socket) {
    if (side != 0 && side != 1) throw std::invalid_argument("net_shm: side must be 0 or 1");
    max_frame = header_->frame_bytes;
}

ShmPort::~ShmPort() { close(socket_); }

std::uint32_t ShmPort::used(const Ring& ring) const {
    const std::uint32_t head = ring.head.load(std::memory_order_acquire);
    const std::uint32_t n = ring.tail.load(std::memory_order_acquire) - head;
    if (n > slots_) throw std::runtime_error("net_shm: the other end broke the ring");
    return n;
}

std::size_t ShmPort::receive(Pool& pool, std::uint32_t* out, std::size_t count) {
    Ring& ring = header_->rings[in_];
    const std::size_t n = std::min<std::size_t>(count, used(ring));
    if (n == 0) return 0;
    if (!pool.alloc(out, n)) {
        ++stats.rx_nombuf;
        return 0;
    }
    const std::uint32_t head = ring.head.load(std::memory_order_relaxed);
    const std::int64_t now = now_ns();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const Slot* from = slot(in_, head + std::uint32_t(i));
        const std::uint32_t size = from->size;
        if (size > stride_ - sizeof(Slot)) {
            ++stats.ierrors;
        } else if (accept(pool, out[kept], from->data, size, now)) {
            ++kept;
        }
    }
    ring.head.store(head + std::uint32_t(n), std::memory_order_release);
    if (kept < n) pool.release(out + kept, n - kept);
    return kept;
}

std::size_t ShmPort::send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) {
    pool.check(mbufs, count);
    Ring& ring = header_->rings[out_];
    const std::size_t room = slots_ - used(ring);
    const std::uint32_t tail = ring.tail.load(std::memory_order_relaxed);
    std::size_t taken = 0;
    std::uint32_t put = 0;
    for (; taken < count; ++taken) {
        const std::uint32_t size = pool.mbuf(mbufs[taken]).data_len;
        if (size < 14 || size > max_frame) {
            ++stats.oerrors;
            continue;
        }
        if (put == room) break;
        Slot* to = slot(out_, tail + put);
        to->size = size;
        std::memcpy(to->data, pool.data(mbufs[taken]), size);
        ++put;
        stats.obytes += size;
    }
    stats.opackets += put;
    stats.tx_full += count - taken;
    if (put) {
        ring.tail.store(tail + put, std::memory_order_release);
        // Either the reader, having said it sleeps, sees the new tail, or we see that it sleeps. (A head that is not
        // the newest makes more of what is there, never less.)
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const std::uint32_t wants = ring.asleep.load(std::memory_order_relaxed);
        if (wants && used(ring) >= wants && ring.asleep.exchange(0)) {
            const char byte = 1;
            ::send(socket_, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);  // a full socket wakes as well
            ++stats.wakeups_sent;
        }
    }
    pool.release(mbufs, taken);
    return taken;
}

bool ShmPort::arm() {
    Ring& ring = header_->rings[in_];
    const std::uint32_t wanted = std::clamp<std::uint32_t>(wake_at, 1, slots_ / 2);
    ring.asleep.store(wanted, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return used(ring) < wanted;
}

void ShmPort::disarm(bool readable) {
    if (header_->rings[in_].asleep.exchange(0) == 0 || readable) drain();
}

void ShmPort::drain() {
    char bytes[64];
    ssize_t n = 0;
    while ((n = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT)) == ssize_t(sizeof bytes)) {
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) gone_ = true;
}

bool ShmPort::peer_gone() {
    if (!gone_) {
        char byte;
        gone_ = recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
    }
    return gone_;
}

}  // namespace netfold::host
