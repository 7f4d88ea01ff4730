// core.p4: what every P4_16 architecture has. netfold's own text of the interface in the P4_16 specification
// (section "The P4_16 core library").

#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,         // extract, advance or lookahead beyond the packet's end
    NoMatch,                // a select that no case matches
    StackOutOfBounds,       // next or last of a full or empty header stack
    HeaderTooShort,         // more bits for a varbit field than it can hold
    ParserTimeout,          // the target's limit on parsing
    ParserInvalidArgument   // an argument that the target does not support
}

match_kind { exact, ternary, lpm }

// The packet as its parser reads it.
extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

// The packet as its deparser writes it.
extern packet_out {
    void emit<T>(in T hdr);
}

// Stops the parser with error `toSignal` unless `check` holds.
extern void verify(in bool check, in error toSignal);

extern bool static_assert(bool check);
extern bool static_assert(bool check, string message);

action NoAction() { }

#endif
