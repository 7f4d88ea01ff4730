#include "packet_port.hpp"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace netfold::host {

namespace {

constexpr std::size_t data_at = TPACKET_ALIGN(sizeof(tpacket2_hdr));  // of a frame to send
constexpr int not_outgoing = 23;  // PACKET_IGNORE_OUTGOING (Linux 4.20): what we send does not come back to us

template <typename T>
void option(int socket, int name, const T& value, const char* what) {
    if (setsockopt(socket, SOL_PACKET, name, &value, sizeof value) < 0) raise_os(what);
}

std::uint32_t status(std::uint8_t* frame) {
    return std::atomic_ref(reinterpret_cast<tpacket2_hdr*>(frame)->tp_status).load(std::memory_order_acquire);
}
void set_status(std::uint8_t* frame, std::uint32_t value) {
    std::atomic_ref(reinterpret_cast<tpacket2_hdr*>(frame)->tp_status).store(value, std::memory_order_release);
}

}  // namespace

PacketPort::PacketPort(const std::string& interface, std::uint32_t frames, std::uint32_t mtu) {
    try {
        open(interface, frames, mtu);
    } catch (...) {
        if (map_) munmap(map_, map_bytes_);
        if (socket_ >= 0) close(socket_);
        throw;
    }
}

void PacketPort::open(const std::string& interface, std::uint32_t frames, std::uint32_t mtu) {
    // Protocol 0: nothing comes in before bind() says from which interface.
    socket_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (socket_ < 0) raise_os("socket");
    ifreq request{};
    std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
    if (ioctl(socket_, SIOCGIFINDEX, &request) < 0) raise_os(interface);
    interface_ = request.ifr_ifindex;
    if (ioctl(socket_, SIOCGIFHWADDR, &request) < 0) raise_os(interface);
    std::memcpy(address.data(), request.ifr_hwaddr.sa_data, address.size());

    option(socket_, PACKET_VERSION, int{TPACKET_V2}, "PACKET_VERSION");
    option(socket_, not_outgoing, 1, "PACKET_IGNORE_OUTGOING");
    option(socket_, PACKET_LOSS, 1, "PACKET_LOSS");  // a frame the kernel cannot send does not stop the ring
    option(socket_, PACKET_QDISC_BYPASS, 1, "PACKET_QDISC_BYPASS");
    max_frame = mtu + ETHER_HDR_LEN;
    frame_bytes_ = std::bit_ceil(std::uint32_t(data_at + 64 + max_frame + 4));  // 64: headroom; 4: a VLAN tag
    frames_ = frames;
    tpacket_req ring{};
    ring.tp_frame_size = frame_bytes_;
    ring.tp_frame_nr = frames_;
    ring.tp_block_size = std::max(std::uint32_t{1} << 16, frame_bytes_);
    ring.tp_block_nr = std::uint32_t(std::size_t{frames_} * frame_bytes_ / ring.tp_block_size);
    option(socket_, PACKET_RX_RING, ring, "PACKET_RX_RING");
    option(socket_, PACKET_TX_RING, ring, "PACKET_TX_RING");
    const std::size_t one = std::size_t{frames_} * frame_bytes_;
    void* map = mmap(nullptr, 2 * one, PROT_READ | PROT_WRITE, MAP_SHARED, socket_, 0);
    if (map == MAP_FAILED) raise_os("mmap");
    map_ = static_cast<std::uint8_t*>(map);
    map_bytes_ = 2 * one;
    rx_ = map_;
    tx_ = map_ + one;

    sockaddr_ll here{};
    here.sll_family = AF_PACKET;
    here.sll_protocol = htons(ETH_P_ALL);
    here.sll_ifindex = interface_;
    if (bind(socket_, reinterpret_cast<sockaddr*>(&here), sizeof here) < 0) raise_os(interface);
    promiscuous = false;
}

PacketPort::~PacketPort() {
    munmap(map_, map_bytes_);
    close(socket_);
}

void PacketPort::set_promiscuous(bool on) {
    promiscuous = on;
    if (on == joined_) return;
    packet_mreq membership{};
    membership.mr_ifindex = interface_;
    membership.mr_type = PACKET_MR_PROMISC;
    option(socket_, on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, membership, "PACKET_MR_PROMISC");
    joined_ = on;
}

std::size_t PacketPort::receive(Pool& pool, std::uint32_t* out, std::size_t count) {
    std::size_t n = 0;
    while (n < count && (status(frame(rx_, rx_at_ + std::uint32_t(n))) & TP_STATUS_USER)) ++n;
    if (n == 0) return 0;
    if (!pool.alloc(out, n)) {
        ++stats.rx_nombuf;
        return 0;
    }
    const std::int64_t now = now_ns();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < n; ++i, ++rx_at_) {
        std::uint8_t* from = frame(rx_, rx_at_);
        const auto* header = reinterpret_cast<const tpacket2_hdr*>(from);
        std::uint8_t* data = from + header->tp_mac;
        std::uint32_t size = header->tp_snaplen;
        if (size < header->tp_len) {
            ++stats.ierrors;
            set_status(from, TP_STATUS_KERNEL);
            continue;
        }
        if ((header->tp_status & TP_STATUS_VLAN_VALID) && size >= 12 && header->tp_mac >= data_at + 4) {
            // The kernel keeps a VLAN tag apart: put it back, before the ethertype.
            data -= 4;
            std::memmove(data, data + 4, 12);
            const std::uint16_t tag[2] = {
                htons(header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETHERTYPE_VLAN),
                htons(header->tp_vlan_tci)};
            std::memcpy(data + 12, tag, sizeof tag);
            size += 4;
        }
        if (accept(pool, out[kept], data, size, now)) ++kept;
        set_status(from, TP_STATUS_KERNEL);
    }
    if (kept < n) pool.release(out + kept, n - kept);
    return kept;
}

std::size_t PacketPort::send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) {
    pool.check(mbufs, count);
    std::size_t taken = 0;
    std::uint32_t put = 0;
    for (; taken < count; ++taken) {
        const std::uint32_t size = pool.mbuf(mbufs[taken]).data_len;
        if (size < ETHER_HDR_LEN || size > max_frame) {
            ++stats.oerrors;
            continue;
        }
        std::uint8_t* to = frame(tx_, tx_at_);
        if (status(to) != TP_STATUS_AVAILABLE) break;
        std::memcpy(to + data_at, pool.data(mbufs[taken]), size);
        reinterpret_cast<tpacket2_hdr*>(to)->tp_len = size;
        set_status(to, TP_STATUS_SEND_REQUEST);
        ++tx_at_;
        ++put;
        stats.obytes += size;
    }
    stats.opackets += put;
    stats.tx_full += count - taken;
    // What is in the ring goes out now; what the interface refuses (it is down, say) is lost as on a wire.
    if (put && sendto(socket_, nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 && errno != EAGAIN && errno != ENOBUFS) {
        stats.oerrors += put;
        stats.opackets -= put;
    }
    pool.release(mbufs, taken);
    return taken;
}

bool PacketPort::arm() { return !(status(frame(rx_, rx_at_)) & TP_STATUS_USER); }

void PacketPort::read_drops() {
    tpacket_stats counts{};
    socklen_t size = sizeof counts;
    if (getsockopt(socket_, SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0) stats.imissed += counts.tp_drops;
}

}  // namespace netfold::host
