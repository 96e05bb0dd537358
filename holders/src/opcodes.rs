//! What the instructions of CPython's versions do with variables, and where they go on.

/// The instructions of a version, by opcode, in the form in which code objects give them to programs. One character each:
///
/// | | |
/// |---|---|
/// | `.` | uses no variable, and goes on with the next instruction |
/// | `g` | the same, and reads a global variable |
/// | `E` | has the upper bits of the next argument |
/// | `r`, `R` | reads a variable, or two with half of the argument each |
/// | `w`, `W` | stores or deletes a variable, or stores two |
/// | `M` | stores a variable and reads another one |
/// | `j`, `b`, `a` | jumps forward, backward, to a place |
/// | `f`, `k`, `A` | the same, or goes on |
/// | `x` | returns or raises |
/// | `s`, `p` | begins a block with a handler, ends it |
/// | `q`, `e` | calls a `finally`, and ends it, in 3.8 |
/// | `_` | nothing known |
///
/// An instruction for a variable of closures reads it: the number is never that of another variable from 3.11 on.
pub(crate) fn table(minor: (u32, u32)) -> Option<&'static [u8]> {
    Some(match minor {
        (3, 8) => PY_38,
        (3, 9) => PY_39,
        (3, 10) => PY_310,
        (3, 11) => PY_311,
        (3, 12) => PY_312,
        (3, 13) => PY_313,
        (3, 14) => PY_314,
        _ => return None,
    })
}

const PY_38: &[u8] = b"\
    _......__....__..._.._........____________________........_..............._....._..x...pe....f....._\
    ..........jAAaAAg_____s_rww___x..._....__..sE.........s...._..q.";
const PY_39: &[u8] = b"\
    _......__....__..._.._........__________________x...._...._.....................__.x...p_....f....._\
    ..........jAAaAAg..__As_rww___x..._....__..sE...._____s...__......";
const PY_310: &[u8] = b"\
    _......__....__..._.._.............______________...._...._.....................__.x...p_....f......\
    ..........jAAaAAg..x_As_rww__.x..._....__..sE....___._s...__......";
const PY_311: &[u8] = b"\
    ...______....__._________.____...._...___________......_____..______....__..______.x.........f......\
    ..........jff_ffg..x._.frww_ffx...brrrrrb_._E...r._..__...__._.....____..kkkk";
const PY_312: &[u8] = b"\
    ..._..___._..__._________...__...._...___________.......____..______.._.__.._______x_._._....f......\
    ..........j___ffg..x.x.frwwrffx...brrrrrb..rE..._....__...____...._____.....r";
const PY_313: &[u8] = b"\
    ..._............._...._.............x...........................rw...._Ef....bbj....rrrrRr.g..r..fff\
    fxxxf....rwMW......______________________________.";
const PY_314: &[u8] = b"\
    ..._............._.._..............x..........................rw.....Ef....bbj.....rrrrRrRr.g....r..\
    ffffxxf....rwMW......_______.";
