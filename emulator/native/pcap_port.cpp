#include "pcap_port.hpp"

#include <bit>
#include <cstring>
#include <ctime>
#include <stdexcept>

namespace netfold::host {

namespace {
// The file format of libpcap (pcap-savefile(5)): magic numbers for times in microseconds and nanoseconds.
constexpr std::uint32_t magic_us = 0xa1b2c3d4, magic_ns = 0xa1b23c4d;
constexpr std::uint32_t ethernet = 1;
constexpr std::size_t file_header = 24, record_header = 16;
constexpr std::uint32_t snaplen = 262144;
}  // namespace

std::uint32_t PcapPort::word(std::size_t at) const {
    std::uint32_t value = 0;
    std::memcpy(&value, input_.data() + at, sizeof value);
    return swapped_ ? __builtin_bswap32(value) : value;
}

PcapPort::PcapPort(const std::string& rx_file, const std::string& tx_file) : tx_file_(tx_file) {
    if (!rx_file.empty()) {
        std::FILE* in = std::fopen(rx_file.c_str(), "rbe");
        if (!in) raise_os(rx_file);
        std::uint8_t block[65536];
        std::size_t n = 0;
        while ((n = std::fread(block, 1, sizeof block, in)) > 0) input_.insert(input_.end(), block, block + n);
        const bool failed = std::ferror(in) != 0;
        std::fclose(in);
        if (failed) raise_os(rx_file);
        if (input_.size() < file_header) throw std::invalid_argument(rx_file + ": no pcap file");
        const auto is_magic = [this] { return word(0) == magic_us || word(0) == magic_ns; };
        if (!is_magic()) swapped_ = true;
        if (!is_magic()) throw std::invalid_argument(rx_file + ": no pcap file (pcapng is not read)");
        if ((word(20) & 0x0fffffff) != ethernet) throw std::invalid_argument(rx_file + ": not of Ethernet");
        at_ = file_header;
    }
    if (!tx_file.empty()) {
        output_ = std::fopen(tx_file.c_str(), "wbe");
        if (!output_) raise_os(tx_file);
        const std::uint32_t header[6] = {magic_ns, 4u << 16 | 2, 0, 0, snaplen, ethernet};  // version 2.4
        std::fwrite(header, sizeof header, 1, output_);
    }
}

PcapPort::~PcapPort() {
    if (output_) std::fclose(output_);
}

std::size_t PcapPort::receive(Pool& pool, std::uint32_t* out, std::size_t count) {
    std::size_t kept = 0;
    const std::int64_t now = now_ns();
    while (kept < count && at_ < input_.size()) {
        const std::size_t left = input_.size() - at_;
        const std::uint32_t size = left >= record_header ? word(at_ + 8) : 0;
        if (left < record_header || size > left - record_header) {  // cut off in the middle of a packet
            ++stats.ierrors;
            at_ = input_.size();
            break;
        }
        if (!pool.alloc(out + kept, 1)) {
            ++stats.rx_nombuf;
            break;
        }
        if (accept(pool, out[kept], input_.data() + at_ + record_header, size, now)) {
            ++kept;
        } else {
            pool.release(out + kept, 1);
        }
        at_ += record_header + size;
    }
    return kept;
}

void PcapPort::write(Pool& pool, const std::uint32_t* mbufs, std::size_t count) {
    pool.check(mbufs, count);
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    for (std::size_t i = 0; i < count && output_; ++i) {
        const std::uint32_t size = pool.mbuf(mbufs[i]).data_len;
        const std::uint32_t header[4] = {std::uint32_t(t.tv_sec), std::uint32_t(t.tv_nsec), size, size};
        std::fwrite(header, sizeof header, 1, output_);
        std::fwrite(pool.data(mbufs[i]), size, 1, output_);
    }
    if (output_ && std::ferror(output_)) raise_os(tx_file_);
}

std::size_t PcapPort::send(Pool& pool, const std::uint32_t* mbufs, std::size_t count) {
    write(pool, mbufs, count);
    for (std::size_t i = 0; i < count; ++i) stats.obytes += pool.mbuf(mbufs[i]).data_len;
    stats.opackets += count;
    pool.release(mbufs, count);
    return count;
}

void PcapPort::flush() {
    if (output_ && std::fflush(output_)) raise_os(tx_file_);
}

}  // namespace netfold::host
