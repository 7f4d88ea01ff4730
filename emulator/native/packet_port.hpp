// A network interface through AF_PACKET sockets with memory-mapped rings (TPACKET_V2, packet(7)).
#pragma once

#include <string>

#include "port.hpp"

namespace netfold::host {

class PacketPort final : public Port {
   public:
    // Raises OSError: what the kernel refused. `frames`: of each ring, a power of two.
    PacketPort(const std::string& interface, std::uint32_t frames, std::uint32_t mtu);
    ~PacketPort() override;

    std::size_t receive(Pool& pool, std::uint32_t* out, std::size_t count) override;
    std::size_t send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) override;
    int descriptor() const override { return socket_; }
    bool arm() override;
    void disarm(bool) override {}
    void set_promiscuous(bool on);
    // The kernel's count of packets that found the ring full, taken into stats.imissed.
    void read_drops();

   private:
    void open(const std::string& interface, std::uint32_t frames, std::uint32_t mtu);
    std::uint8_t* frame(std::uint8_t* ring, std::uint32_t at) const {
        return ring + std::size_t(at & (frames_ - 1)) * frame_bytes_;
    }

    int socket_ = -1;
    int interface_ = 0;
    std::uint8_t* map_ = nullptr;
    std::size_t map_bytes_ = 0;
    std::uint8_t* rx_ = nullptr;
    std::uint8_t* tx_ = nullptr;
    std::uint32_t frames_ = 0, frame_bytes_ = 0;
    std::uint32_t rx_at_ = 0, tx_at_ = 0;
    bool joined_ = false;
};

}  // namespace netfold::host
