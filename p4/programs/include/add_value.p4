// What a program that adds values up does to each of them; for EACH_VALUE. The program has, for value i, a register
// value<i> of bit<32>, and hdr.values, meta.at (the aggregator) and, to add, `fresh` (the aggregator holds nothing
// of use) and `saturated` (is set when a sum hit an end of int<32>).
//
// Registers are of bit<32>, as simple_switch reads the elements of a register<int<32>> without their sign.

#ifndef NETFOLD_ADD_VALUE_P4
#define NETFOLD_ADD_VALUE_P4

#define VALUE_VARIABLES bit<32> word; int<32> held; int<32> sum;

// The sum into the aggregator and into the packet.
#define ADD_VALUE(i) value##i.read(word, meta.at); held = fresh ? 32s0 : (int<32>)word; \
    sum = held |+| hdr.values.v##i; saturated = sum != held + hdr.values.v##i ? 1w1 : saturated; \
    value##i.write(meta.at, (bit<32>)sum); hdr.values.v##i = sum;

// What the aggregator holds into the packet.
#define TAKE_VALUE(i) value##i.read(word, meta.at); hdr.values.v##i = (int<32>)word;

#endif
