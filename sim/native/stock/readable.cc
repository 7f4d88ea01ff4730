#include "readable.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace netfold
{

namespace
{

constexpr std::uint16_t kIpv4 = 0x0800, kArp = 0x0806;
constexpr std::size_t kMostOfIpv4AndTcp = 60 + 60; // bytes of the longest headers

using Bytes = std::span<const std::uint8_t>;

std::size_t
Word(Bytes bytes, std::size_t at)
{
    return static_cast<std::size_t>(bytes[at] << 8 | bytes[at + 1]);
}

bool
ReadableOptions(Bytes options)
{
    constexpr std::uint8_t kEnd = 0, kNothing = 1, kSegmentSize = 2, kScale = 3, kSackPermitted = 4, kSack = 5, kTimes = 8;
    std::size_t at = 0;
    while (at < options.size() && options[at] != kEnd)
    {
        if (options[at] == kNothing)
        {
            ++at;
            continue;
        }
        if (at + 2 > options.size())
        {
            return false;
        }
        const std::uint8_t kind = options[at];
        const std::size_t length = options[at + 1];
        const bool right = kind == kSegmentSize     ? length == 4
                           : kind == kScale         ? length == 3
                           : kind == kSackPermitted ? length == 2
                           : kind == kSack          ? length >= 10 && length % 8 == 2
                           : kind == kTimes         ? length == 10
                                                    : length >= 2;
        if (!right || at + length > options.size())
        {
            return false;
        }
        at += length;
    }
    return true;
}

bool
ReadableTransport(Bytes seen, std::size_t bytes, std::uint8_t protocol)
{
    constexpr std::uint8_t kIcmp = 1, kTcp = 6, kUdp = 17;
    constexpr std::uint8_t kUnreachable = 3, kTimeExceeded = 11;
    if (protocol == kUdp)
    {
        return bytes >= 8;
    }
    if (protocol == kTcp)
    {
        if (bytes < 20)
        {
            return false;
        }
        const std::size_t header = (seen[12] >> 4) * std::size_t{4};
        return header >= 20 && header <= bytes && ReadableOptions(seen.subspan(20, header - 20));
    }
    if (protocol == kIcmp)
    {
        if (bytes < 8)
        {
            return false;
        }
        // Errors quote an IPv4 header without options and 8 bytes.
        const bool quotes = seen[0] == kUnreachable || seen[0] == kTimeExceeded;
        return !quotes || (bytes >= 36 && seen[8] == 0x45);
    }
    return true;
}

} // namespace

bool
IsReadable(const ns3::Packet& packet, std::uint16_t protocol)
{
    if (protocol != kIpv4 && protocol != kArp)
    {
        return true;
    }
    std::array<std::uint8_t, kMostOfIpv4AndTcp> buffer;
    const std::size_t bytes = packet.GetSize();
    const Bytes seen{buffer.data(), packet.CopyData(buffer.data(), static_cast<std::uint32_t>(std::min(bytes, buffer.size())))};
    if (protocol == kArp)
    {
        constexpr std::array<std::uint8_t, 6> kEthernetIpv4{0, 1, 8, 0, 6, 4};
        return bytes >= 28 && std::equal(kEthernetIpv4.begin(), kEthernetIpv4.end(), seen.begin());
    }
    if (bytes < 20 || seen[0] >> 4 != 4)
    {
        return false;
    }
    const std::size_t header = (seen[0] & 15) * std::size_t{4};
    const std::size_t total = Word(seen, 2);
    if (header < 20 || total < header || total > bytes)
    {
        return false;
    }
    const bool laterFragment = (Word(seen, 6) & 0x1fff) != 0;
    return laterFragment || ReadableTransport(seen.subspan(header), total - header, seen[9]);
}

} // namespace netfold
