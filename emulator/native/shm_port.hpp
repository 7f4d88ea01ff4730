// One end of a link of shared memory between two processes: a ring of frames each way, as memif has it.
//
// A reader that finds its ring empty says so (`asleep`: how many frames it wants to be woken for), looks once more and
// sleeps on its end of a socket pair; a writer that sees so many there takes the mark away and sends one byte. So an
// idle link costs nothing and a busy one no system call. If the other process is gone the socket says that too.
#pragma once

#include <atomic>

#include "port.hpp"

namespace netfold::host {

class ShmPort final : public Port {
   public:
    // Memory for one link: `slots` frames (a power of two) of at most `frame_bytes` each way.
    static std::shared_ptr<Region> create_link(std::uint32_t slots, std::uint32_t frame_bytes, const std::string& name,
                                               bool huge);

    // The largest frame of a link. Throws if the memory holds none.
    static std::uint32_t link_frame_bytes(const Region& region);

    // `side` 0 or 1: which of the two rings is written. `socket` becomes the port's own.
    ShmPort(std::shared_ptr<Region> region, int side, int socket);
    ~ShmPort() override;

    std::size_t receive(Pool& pool, std::uint32_t* out, std::size_t count) override;
    std::size_t send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) override;
    int descriptor() const override { return gone_ ? -1 : socket_; }
    bool arm() override;
    void disarm(bool readable) override;

    bool peer_gone();  // the other end's process closed it or died

   private:
    static constexpr std::uint64_t magic = 0x6b6e696c'646c666eULL;  // "nfldlink"
    struct Ring {
        alignas(64) std::atomic<std::uint32_t> tail;  // written by the sender
        alignas(64) std::atomic<std::uint32_t> head;  // written by the receiver
        alignas(64) std::atomic<std::uint32_t> asleep;  // 0: the receiver is awake
    };
    struct Header {
        std::uint64_t magic;
        std::uint32_t slots, frame_bytes, stride, reserved;
        Ring rings[2];
    };
    struct Slot {
        std::uint32_t size;
        std::uint32_t reserved;
        std::uint8_t data[];
    };

    Slot* slot(int ring, std::uint32_t at) const {
        const std::size_t index = std::size_t(ring) * slots_ + (at & (slots_ - 1));
        return reinterpret_cast<Slot*>(region_->data() + sizeof(Header) + index * stride_);
    }
    static Header* header_of(const Region& region);  // throws if it holds no link
    // Frames in a ring; throws if the other side wrote nonsense.
    std::uint32_t used(const Ring& ring) const;
    void drain();

    std::shared_ptr<Region> region_;
    Header* header_;
    std::uint32_t slots_, stride_;  // checked copies: the other side could change the header
    int in_, out_;                  // ring numbers
    int socket_;
    bool gone_ = false;
};

}  // namespace netfold::host
