// Which frames ns-3's host stack can read. Its headers assert on what is cut short, which would end the process; a P4
// program may well send such a frame, and a real host drops it.
#ifndef NETFOLD_STOCK_READABLE_H
#define NETFOLD_STOCK_READABLE_H

#include <ns3/packet.h>

#include <cstdint>

namespace netfold
{

// `packet`: what follows the Ethernet header; `protocol`: its Ethertype. True for Ethertypes that no handler of a host reads.
// Checked: ARP (RFC 826), IPv4's lengths (RFC 791) and, where the packet is no later fragment, the whole header of UDP,
// TCP with its options (RFC 9293), and ICMP (RFC 792).
bool IsReadable(const ns3::Packet& packet, std::uint16_t protocol);

} // namespace netfold

#endif
