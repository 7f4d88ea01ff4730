// ends.p4: two tables that find a sum at an end of int<32>. A RegisterAction adds with saturation and stays at the end
// it reached, so a value there means that the sum is not exact. Fifteen values a table: the ternary crossbar takes 66
// bytes a stage. Included in SwitchIngress.

#define END_MAX 32w0x7FFFFFFF
#define END_MIN 32w0x80000000

    action at_an_end() {
        hdr.agg.saturated = 1;
    }
    table ends_low {
        key = {
            (bit<32>)hdr.values.v0: ternary @name("v0");
            (bit<32>)hdr.values.v1: ternary @name("v1");
            (bit<32>)hdr.values.v2: ternary @name("v2");
            (bit<32>)hdr.values.v3: ternary @name("v3");
            (bit<32>)hdr.values.v4: ternary @name("v4");
            (bit<32>)hdr.values.v5: ternary @name("v5");
            (bit<32>)hdr.values.v6: ternary @name("v6");
            (bit<32>)hdr.values.v7: ternary @name("v7");
            (bit<32>)hdr.values.v8: ternary @name("v8");
            (bit<32>)hdr.values.v9: ternary @name("v9");
            (bit<32>)hdr.values.v10: ternary @name("v10");
            (bit<32>)hdr.values.v11: ternary @name("v11");
            (bit<32>)hdr.values.v12: ternary @name("v12");
            (bit<32>)hdr.values.v13: ternary @name("v13");
            (bit<32>)hdr.values.v14: ternary @name("v14");
        }
        actions = { at_an_end; NoAction; }
        default_action = NoAction();
        size = 32;
        const entries = {
            (END_MAX, _, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (END_MIN, _, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, END_MAX, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, END_MIN, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, END_MAX, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, END_MIN, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, END_MAX, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, END_MIN, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, END_MAX, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, END_MIN, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, END_MAX, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, END_MIN, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, END_MAX, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, END_MIN, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, END_MAX, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, END_MIN, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, END_MAX, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, END_MIN, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, END_MAX, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, END_MIN, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, END_MAX, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, END_MIN, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, END_MAX, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, END_MIN, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, END_MAX, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, END_MIN, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, END_MAX, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, END_MIN, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, _, END_MAX): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, _, END_MIN): at_an_end();
        }
    }
    table ends_high {
        key = {
            (bit<32>)hdr.values.v15: ternary @name("v15");
            (bit<32>)hdr.values.v16: ternary @name("v16");
            (bit<32>)hdr.values.v17: ternary @name("v17");
            (bit<32>)hdr.values.v18: ternary @name("v18");
            (bit<32>)hdr.values.v19: ternary @name("v19");
            (bit<32>)hdr.values.v20: ternary @name("v20");
            (bit<32>)hdr.values.v21: ternary @name("v21");
            (bit<32>)hdr.values.v22: ternary @name("v22");
            (bit<32>)hdr.values.v23: ternary @name("v23");
            (bit<32>)hdr.values.v24: ternary @name("v24");
            (bit<32>)hdr.values.v25: ternary @name("v25");
            (bit<32>)hdr.values.v26: ternary @name("v26");
            (bit<32>)hdr.values.v27: ternary @name("v27");
            (bit<32>)hdr.values.v28: ternary @name("v28");
            (bit<32>)hdr.values.v29: ternary @name("v29");
        }
        actions = { at_an_end; NoAction; }
        default_action = NoAction();
        size = 32;
        const entries = {
            (END_MAX, _, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (END_MIN, _, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, END_MAX, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, END_MIN, _, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, END_MAX, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, END_MIN, _, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, END_MAX, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, END_MIN, _, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, END_MAX, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, END_MIN, _, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, END_MAX, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, END_MIN, _, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, END_MAX, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, END_MIN, _, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, END_MAX, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, END_MIN, _, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, END_MAX, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, END_MIN, _, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, END_MAX, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, END_MIN, _, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, END_MAX, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, END_MIN, _, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, END_MAX, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, END_MIN, _, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, END_MAX, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, END_MIN, _, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, END_MAX, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, END_MIN, _): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, _, END_MAX): at_an_end();
            (_, _, _, _, _, _, _, _, _, _, _, _, _, _, END_MIN): at_an_end();
        }
    }

#undef END_MAX
#undef END_MIN
