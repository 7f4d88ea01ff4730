#include "wire-codec.h"

#include "epoch-runner.h"

#include <algorithm>
#include <stdexcept>

namespace netfold
{

namespace
{

constexpr std::uint32_t kEctCapable = 2; // ECT(0), RFC 3168
constexpr std::uint32_t kCongested = 3;
constexpr std::uint8_t kTtl = 64;

// The sum of an IPv4 header's 16-bit words.
std::uint32_t
SumOf(const std::uint8_t* header)
{
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < 20; i += 2)
    {
        sum += static_cast<std::uint32_t>(header[i] << 8 | header[i + 1]);
    }
    return sum;
}

std::uint32_t
Folded(std::uint32_t sum)
{
    sum = (sum & 0xFFFF) + (sum >> 16);
    return (sum & 0xFFFF) + (sum >> 16);
}

} // namespace

WireCodec::Field
WireCodec::Whole(const WireLayout& layout, const std::string& name) const
{
    const WirePlace place = layout.fields.at(name);
    if (place.at % 8 || place.bits % 8)
    {
        throw std::out_of_range(name + ": not of whole bytes");
    }
    return {place.at / 8, place.bits / 8};
}

WireCodec::Bits
WireCodec::Part(const WireLayout& layout, const std::string& name) const
{
    const WirePlace place = layout.fields.at(name);
    const std::uint32_t end = place.at % 8 + place.bits;
    if (end > 8)
    {
        throw std::out_of_range(name + ": in more than one byte");
    }
    const auto shift = static_cast<std::uint8_t>(8 - end);
    return {place.at / 8, static_cast<std::uint8_t>(((1u << place.bits) - 1) << shift), shift};
}

WireCodec::WireCodec(const WireLayout& layout, Fabric& fabric)
    : pool(fabric.config.mtu_bytes + 64),
      m_fabric(fabric),
      m_values(layout.fields.at("values").at / 8),
      m_ipAt(layout.fields.at("ipv4.version").at / 8)
{
    m_ethernetDst = Whole(layout, "ethernet.dst");
    m_ethernetSrc = Whole(layout, "ethernet.src");
    m_ethernetType = Whole(layout, "ethernet.type");
    m_version = Part(layout, "ipv4.version");
    m_ihl = Part(layout, "ipv4.ihl");
    m_ecn = Part(layout, "ipv4.ecn");
    m_length = Whole(layout, "ipv4.length");
    m_ttl = Whole(layout, "ipv4.ttl");
    m_protocol = Whole(layout, "ipv4.protocol");
    m_checksum = Whole(layout, "ipv4.checksum");
    m_ipSrc = Whole(layout, "ipv4.src");
    m_ipDst = Whole(layout, "ipv4.dst");
    m_udpSrc = Whole(layout, "udp.src");
    m_udpDst = Whole(layout, "udp.dst");
    m_udpLength = Whole(layout, "udp.length");
    m_type = Whole(layout, "agg.type");
    m_resend = Part(layout, "agg.resend");
    m_bypass = Part(layout, "agg.bypass");
    m_pull = Part(layout, "agg.pull");
    m_job = Whole(layout, "agg.job");
    m_level = Whole(layout, "agg.level");
    m_block = Whole(layout, "agg.block");
    m_round = Whole(layout, "agg.round");
    m_vertex = Whole(layout, "agg.vertex");
    m_chunk = Whole(layout, "agg.chunk");
    m_worker = Whole(layout, "agg.worker");
    m_count = Whole(layout, "agg.count");
    const auto number = [&](const char* name) { return layout.numbers.at(name); };
    m_etherType = number("ethertype_ipv4");
    m_udp = number("protocol_udp");
    m_aggregationPort = number("aggregation_port");
    m_hostPort = number("host_port");
    m_firstIp = number("first_ip");
    m_switchIp = number("switch_ip");
    m_firstMac = number("first_mac");
    m_gatewayMac = number("gateway_mac");
    m_firstSource = number("first_source_port");
    m_fcs = number("fcs_bytes");
    m_upload = number("upload");
    m_partial = number("partial");
    m_result = number("result");
    m_direct = number("direct");
    m_pullType = number("pull");
    m_done = number("done");
    m_complete = number("complete");
    m_cnp = number("cnp");
    m_constants.resize(m_values);
    PutConstants(m_constants.data());
    m_constantSum = SumOf(m_constants.data() + m_ipAt);
}

void
WireCodec::PutConstants(std::uint8_t* frame) const
{
    m_ethernetDst.Put(frame, m_gatewayMac);
    m_ethernetType.Put(frame, m_etherType);
    m_version.Put(frame, 4);
    m_ihl.Put(frame, 5);
    m_ecn.Put(frame, kEctCapable);
    m_ttl.Put(frame, kTtl);
    m_protocol.Put(frame, m_udp);
}

std::uint32_t
WireCodec::TypeOf(const Frame& frame) const
{
    switch (frame.kind)
    {
    case Kind::Upload:
        return static_cast<std::uint32_t>(m_upload);
    case Kind::Presum:
    case Kind::Partial:
        return static_cast<std::uint32_t>(m_partial);
    case Kind::Result:
        return static_cast<std::uint32_t>(m_result);
    case Kind::Pull:
        return static_cast<std::uint32_t>(m_pullType);
    case Kind::Finish:
        return static_cast<std::uint32_t>(m_done);
    case Kind::Complete:
        return static_cast<std::uint32_t>(m_complete);
    case Kind::Cnp:
        return static_cast<std::uint32_t>(m_cnp);
    case Kind::Raw:
    case Kind::Background:
        break;
    }
    return static_cast<std::uint32_t>(m_direct);
}

// The aggregation's parser wants all values of a packet.
bool
WireCodec::ForSwitches(const Frame& frame) const
{
    switch (frame.kind)
    {
    case Kind::Pull:
    case Kind::Background:
        return false;
    case Kind::Raw:
        return !m_runner->ExchangeOf(frame.tag).HostBased();
    default:
        return true;
    }
}

void
WireCodec::PutValues(std::uint8_t* bytes, const std::int32_t* values, std::uint32_t count) const
{
    for (std::uint32_t i = 0; i < count; ++i)
    {
        const std::uint32_t swapped = __builtin_bswap32(static_cast<std::uint32_t>(values[i]));
        std::memcpy(bytes + m_values + 4 * i, &swapped, 4);
    }
}

void
WireCodec::Encode(Frame& frame)
{
    const std::size_t length = frame.bytes - m_fcs;
    const std::uint32_t id = pool.Allocate(length);
    std::uint8_t* bytes = pool.At(id);
    std::memcpy(bytes, m_constants.data(), m_values);
    std::memset(bytes + m_values, 0, length - m_values);

    const bool forSwitches = ForSwitches(frame);
    const bool toSwitch = frame.dst >= m_fabric.config.workers;
    const auto src = static_cast<std::uint32_t>(m_firstIp + frame.src);
    const auto dst = static_cast<std::uint32_t>(toSwitch ? m_switchIp : m_firstIp + frame.dst);
    const auto ipLength = static_cast<std::uint32_t>(length - m_ipAt);
    m_ethernetSrc.Put(bytes, m_firstMac + frame.src);
    m_length.Put(bytes, ipLength);
    m_ipSrc.Put(bytes, src);
    m_ipDst.Put(bytes, dst);
    const std::uint32_t sum =
        m_constantSum + ipLength + (src >> 16) + (src & 0xFFFF) + (dst >> 16) + (dst & 0xFFFF); // RFC 1071
    m_checksum.Put(bytes, ~Folded(sum) & 0xFFFF);
    m_udpSrc.Put(bytes, m_firstSource + frame.src);
    m_udpDst.Put(bytes, forSwitches ? m_aggregationPort : m_hostPort);
    m_udpLength.Put(bytes, length - m_ipAt - 20);

    m_type.Put(bytes, TypeOf(frame));
    m_worker.Put(bytes, frame.src);
    m_vertex.Put(bytes, frame.item);
    m_chunk.Put(bytes, frame.chunk);
    m_resend.Put(bytes, (frame.flags & kResend) != 0);
    m_bypass.Put(bytes, (frame.flags & kBypassed) != 0);
    m_count.Put(bytes, frame.kind == Kind::Upload);
    const bool own = frame.kind != Kind::Background && !(frame.flags & kBackgroundFlow);
    if (own)
    {
        const WireBlock block = m_runner->BlockOf(frame.tag);
        const bool finishing =
            (frame.kind == Kind::Finish || frame.kind == Kind::Complete) && !(frame.flags & kSentOnly);
        m_job.Put(bytes, block.job);
        m_round.Put(bytes, block.round);
        m_block.Put(bytes, block.number + finishing);
    }
    if (frame.kind == Kind::Raw && forSwitches)
    {
        // An entry is a slot and who wants it: the latter is the address.
        m_vertex.Put(bytes, m_runner->ExchangeOf(frame.tag).EntrySlot(frame.item));
        m_pull.Put(bytes, 1);
    }
    if (frame.kind == Kind::Pull)
    {
        std::uint8_t* at = bytes + m_values;
        const auto& items = m_fabric.pulls.At(frame.payload);
        m_count.Put(bytes, items.size());
        for (const PullItem& item : items)
        {
            std::memcpy(at, &item, sizeof item);
            at += sizeof item;
        }
    }
    else if (frame.payload != kNone)
    {
        const std::size_t room = (length - m_values) / 4;
        PutValues(bytes, m_fabric.values.At(frame.payload), static_cast<std::uint32_t>(room));
    }
    m_fabric.Consume(frame);
    frame.payload = id;
}

bool
WireCodec::Describe(const std::uint8_t* bytes, std::size_t length, Frame& frame) const
{
    frame = Frame{};
    frame.payload = kNone;
    frame.bytes = static_cast<std::uint16_t>(length + m_fcs);
    frame.kind = Kind::Background;
    const std::uint32_t workers = m_fabric.config.workers;
    if (length < m_values || m_ethernetType.Get(bytes) != m_etherType || m_version.Get(bytes) != 4 || m_ihl.Get(bytes) != 5 ||
        m_protocol.Get(bytes) != m_udp)
    {
        return false;
    }
    const std::uint64_t port = m_udpDst.Get(bytes);
    const std::uint64_t source = m_udpSrc.Get(bytes) - m_firstSource;
    const std::uint64_t target = m_ipDst.Get(bytes) - m_firstIp;
    if ((port != m_aggregationPort && port != m_hostPort) || source >= workers)
    {
        return false;
    }
    const std::uint64_t type = m_type.Get(bytes);
    const std::uint64_t job = m_job.Get(bytes);
    const std::uint64_t number = m_block.Get(bytes);
    frame.src = static_cast<std::uint16_t>(source);
    frame.dst = static_cast<std::uint16_t>(target < workers ? target : workers);
    frame.item = static_cast<std::uint32_t>(m_vertex.Get(bytes));
    frame.chunk = static_cast<std::uint16_t>(m_chunk.Get(bytes));
    frame.flags = static_cast<std::uint8_t>((m_ecn.Get(bytes) == kCongested ? kCongestionExperienced : 0) |
                                            (m_resend.Get(bytes) ? kResend : 0) | (m_bypass.Get(bytes) ? kBypassed : 0));
    if (job == 0) // other tenants' traffic and notices about it
    {
        if (type == m_cnp)
        {
            frame.kind = Kind::Cnp;
            frame.flags |= kBackgroundFlow;
        }
        return true;
    }
    if (number == 0 || !m_runner->FindTag({static_cast<std::uint32_t>(job), static_cast<std::uint32_t>(m_round.Get(bytes)),
                                           static_cast<std::uint32_t>(number - 1) / 2 * 2 + 1},
                                          frame.tag))
    {
        return false;
    }
    const Exchange& exchange = m_runner->ExchangeOf(frame.tag);
    const bool slotted = !exchange.HostBased() && frame.item < exchange.Slots() && frame.chunk < exchange.Chunks();
    if (type == m_upload && slotted)
    {
        frame.kind = Kind::Upload;
    }
    else if (type == m_partial && slotted)
    {
        frame.kind = Kind::Partial;
    }
    else if (type == m_result && slotted)
    {
        frame.kind = Kind::Result;
    }
    else if (type == m_direct && slotted && port == m_aggregationPort)
    {
        frame.kind = Kind::Raw;
        frame.item = exchange.EntriesIndexed() ? exchange.FindEntry(frame.item, frame.dst) : kNone;
        if (frame.item == kNone)
        {
            frame.kind = Kind::Background;
            return false;
        }
    }
    else if (type == m_direct && exchange.HostBased() && port == m_hostPort && frame.item < exchange.Entries())
    {
        frame.kind = Kind::Raw;
    }
    else if (type == m_pullType && port == m_hostPort)
    {
        frame.kind = Kind::Pull;
    }
    else if (type == m_done || type == m_complete)
    {
        frame.kind = type == m_done ? Kind::Finish : Kind::Complete;
        frame.src = type == m_done ? frame.src : static_cast<std::uint16_t>(workers);
        frame.flags |= number % 2 ? kSentOnly : 0;
    }
    else if (type == m_cnp)
    {
        frame.kind = Kind::Cnp;
    }
    else
    {
        return false;
    }
    return true;
}

// Whether `worker` may be told of it: it sums up where a frame says, and a program may write what it likes into one.
bool
WireCodec::IsPossible(const Frame& frame, std::uint32_t worker, const std::uint8_t* bytes, std::size_t length) const
{
    if (frame.dst != worker)
    {
        return false;
    }
    if (frame.kind == Kind::Raw && m_runner->ExchangeOf(frame.tag).HostBased())
    {
        const Exchange& exchange = m_runner->ExchangeOf(frame.tag);
        const bool packed = exchange.VerticesPerPacket() > 1 && !(frame.flags & kResend);
        const std::size_t vertices = packed ? (length - m_values) / (4 * exchange.Width()) : 1;
        return frame.chunk < exchange.HostChunks() && vertices <= exchange.VerticesPerPacket() &&
               frame.item >= exchange.FlowBegin(worker, frame.src) &&
               frame.item + vertices <= exchange.FlowEnd(worker, frame.src);
    }
    if (frame.kind == Kind::Pull)
    {
        const Exchange& exchange = m_runner->ExchangeOf(frame.tag);
        for (const PullItem& item : PullItems(bytes, length))
        {
            const bool here = exchange.HostBased() ? item.entry >= exchange.FlowBegin(frame.src, worker) &&
                                                         item.entry < exchange.FlowEnd(frame.src, worker) &&
                                                         item.chunk < exchange.HostChunks()
                                                   : item.entry < exchange.Entries() && item.chunk < exchange.Chunks();
            if (!here)
            {
                return false;
            }
        }
    }
    return true;
}

std::vector<PullItem>
WireCodec::PullItems(const std::uint8_t* bytes, std::size_t length) const
{
    std::vector<PullItem> items(std::min<std::size_t>(m_count.Get(bytes), (length - m_values) / sizeof(PullItem)));
    if (!items.empty())
    {
        std::memcpy(items.data(), bytes + m_values, items.size() * sizeof(PullItem));
    }
    return items;
}

bool
WireCodec::Decode(Frame& frame, std::uint32_t worker)
{
    const std::uint32_t id = frame.payload;
    const std::uint8_t* bytes = pool.At(id);
    const std::size_t length = frame.bytes - m_fcs;
    const bool ours = Describe(bytes, length, frame) && IsPossible(frame, worker, bytes, length);
    const std::size_t room = (length - m_values) / 4;
    const bool valued = frame.kind == Kind::Result || frame.kind == Kind::Raw || frame.kind == Kind::Partial;
    if (ours && valued && m_fabric.config.value_mode)
    {
        frame.payload = m_fabric.values.Allocate();
        std::int32_t* values = m_fabric.values.At(frame.payload);
        for (std::size_t i = 0; i < std::min<std::size_t>(room, m_fabric.values.Stride()); ++i)
        {
            std::uint32_t swapped;
            std::memcpy(&swapped, bytes + m_values + 4 * i, 4);
            values[i] = static_cast<std::int32_t>(__builtin_bswap32(swapped));
        }
    }
    else if (ours && frame.kind == Kind::Pull)
    {
        frame.payload = m_fabric.pulls.Add(PullItems(bytes, length));
    }
    pool.Release(id);
    return ours;
}

} // namespace netfold
