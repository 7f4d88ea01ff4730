// What every driver does the same way: counters, the address filter, and waiting until a packet may be there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool.hpp"

namespace netfold::host {

// rte_eth_stats, and what xstats add.
struct Stats {
    std::uint64_t ipackets = 0, opackets = 0, ibytes = 0, obytes = 0;
    std::uint64_t imissed = 0;      // lost before us: no room where the driver takes packets from
    std::uint64_t ierrors = 0;      // too long for a buffer, or malformed
    std::uint64_t oerrors = 0;      // taken from the caller but not sendable: longer than the MTU allows, or refused
    std::uint64_t rx_nombuf = 0;    // bursts that stayed in the driver for want of mbufs
    std::uint64_t rx_filtered = 0;  // for another address, and not promiscuous
    std::uint64_t tx_full = 0;      // packets handed back to the caller for want of room
    std::uint64_t wakeups_sent = 0, sleeps = 0;
};

class Port {
   public:
    virtual ~Port() = default;
    // Up to `count` packets into new mbufs of `pool`, whose numbers go to `out`.
    virtual std::size_t receive(Pool& pool, std::uint32_t* out, std::size_t count) = 0;
    // Sends from the front; the first n are freed, the others stay the caller's.
    virtual std::size_t send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) = 0;

    // For sleeping: readable once there may be packets; -1 if the port never has to be waited for.
    virtual int descriptor() const = 0;
    // False: there are packets already. True: descriptor() will tell.
    virtual bool arm() = 0;
    virtual void disarm(bool readable) = 0;

    Stats stats;
    bool promiscuous = true;
    std::array<std::uint8_t, 6> address{};
    std::uint16_t id = 0;
    std::uint32_t max_frame = 1514;  // MTU and Ethernet header
    std::uint32_t wake_at = 1;       // packets that end a sleep (a driver may take fewer for enough)

   protected:
    // Copies one packet into an mbuf. False (and counted): not for us, or too long.
    bool accept(Pool& pool, std::uint32_t mbuf, const std::uint8_t* data, std::uint32_t size, std::int64_t now_ns);
};

// One read of the clock for a burst.
std::int64_t now_ns();

// Sleeps until one of the ports or descriptors has something or the time is over. True unless it was over.
// Called without the GIL. Returns early (true) on a signal.
bool wait(const std::vector<Port*>& ports, const std::vector<int>& descriptors, std::int64_t timeout_ns);

}  // namespace netfold::host
