//! Calls that take memory implicitly: contexts, modules, limits, the first launch.

use std::ffi::{CStr, c_char, c_void};

use serde_json::json;

use crate::card::{Card, Facts};
use crate::library::call;

/// Two kernels: a plain one, and one with a stack of 4 KiB.
const KERNELS: &str = "\
.version 6.3
.target sm_75
.address_size 64
.visible .entry plain() { ret; }
.visible .global .align 4 .u32 sink;
.visible .entry deep() {
    .local .align 4 .b8 frame[4096];
    .reg .b64 %a<4>; .reg .b32 %v<4>;
    mov.u64 %a1, frame; mov.u32 %v1, %tid.x;
    mul.wide.u32 %a2, %v1, 4; add.u64 %a3, %a1, %a2;
    st.local.u32 [%a3], %v1; ld.local.u32 %v2, [%a1+64];
    st.global.u32 [sink], %v2;
    ret;
}
\0";

/// A variable of 32 MiB.
const VARIABLE: &str = "\
.version 6.3
.target sm_75
.address_size 64
.visible .global .align 8 .b8 large[33554432];
.visible .entry touch() { ret; }
\0";

/// Kernels whose code has a printf and an allocation. The first thread skips both.
const PRINTS: &str = "\
.version 6.3
.target sm_75
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 text, .param .b64 arguments);
.visible .global .align 1 .b8 text[4];
.visible .entry calls() {
    .reg .b64 %a<2>; .reg .b32 %v<3>; .reg .pred %p;
    mov.u32 %v1, %tid.x; setp.eq.u32 %p, %v1, 0; @%p bra DONE;
    mov.u64 %a1, text; cvta.global.u64 %a1, %a1;
    { .param .b64 first; .param .b64 second; .param .b32 given;
      st.param.b64 [first], %a1; st.param.b64 [second], %a1;
      call.uni (given), vprintf, (first, second); ld.param.b32 %v2, [given]; }
DONE: ret;
}
\0";
const ALLOCATES: &str = "\
.version 6.3
.target sm_75
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 bytes);
.visible .global .align 8 .u64 sink;
.visible .entry calls() {
    .reg .b64 %a<3>; .reg .b32 %v<2>; .reg .pred %p;
    mov.u32 %v1, %tid.x; setp.eq.u32 %p, %v1, 0; @%p bra DONE;
    mov.u64 %a1, 64;
    { .param .b64 first; .param .b64 given;
      st.param.b64 [first], %a1; call.uni (given), malloc, (first); ld.param.b64 %a2, [given]; }
    st.global.u64 [sink], %a2;
DONE: ret;
}
\0";

/// Creates the contexts. The memory of the first is measured by NVML, because `cuMemGetInfo` needs a
/// context. Leaves the primary context current.
pub fn contexts(card: &Card, facts: &mut Facts) -> Result<(), String> {
    let before = card.nvml();
    let first = card.primary()?;
    let after = card.nvml();
    facts.note(
        "context.first_nvml_step",
        before.zip(after).map(|(b, a)| a.v1 - b.v1),
    );
    facts.note("context.process_by_nvml", card.process());
    facts.note("context.listed_by_nvml", card.process().is_some());
    let mut second = core::ptr::null_mut();
    let step = card.step(|| {
        call!(card.cuda, "cuCtxCreate_v2"(*mut *mut c_void: &mut second, u32: 0, i32: 0));
    });
    let back = card.step(|| {
        call!(card.cuda, "cuCtxDestroy_v2"(*mut c_void: second));
        call!(card.cuda, "cuCtxSetCurrent"(*mut c_void: first));
    });
    facts.note("context.second_step", step);
    facts.note("context.second_back", back);
    Ok(())
}

/// Modules and the first launch of a kernel of each.
pub fn modules(card: &Card, facts: &mut Facts) {
    load(card, facts, "kernels", KERNELS, &[c"plain", c"deep"]);
    load(card, facts, "variable", VARIABLE, &[c"touch"]);
}

/// The same for code that uses printf and the heap, which have limits.
pub fn modules_with_limits(card: &Card, facts: &mut Facts) {
    load(card, facts, "printf", PRINTS, &[c"calls"]);
    load(card, facts, "malloc", ALLOCATES, &[c"calls"]);
}

fn load(card: &Card, facts: &mut Facts, name: &str, image: &str, kernels: &[&CStr]) {
    let cuda = &card.cuda;
    let mut module = core::ptr::null_mut();
    let mut code = 0;
    let step = card.step(|| {
        code = call!(cuda, "cuModuleLoadData"(
            *mut *mut c_void: &mut module, *const c_void: image.as_ptr().cast()
        ));
    });
    facts.note(
        format!("module.{name}"),
        json!({ "code": code, "card_step": step }),
    );
    if code != 0 {
        return;
    }
    for kernel in kernels {
        let mut function = core::ptr::null_mut();
        let mut codes = [0; 3];
        let step = card.step(|| {
            codes[0] = call!(cuda, "cuModuleGetFunction"(
                *mut *mut c_void: &mut function, *mut c_void: module, *const c_char: kernel.as_ptr()
            ));
            codes[1] = launch(card, function);
            codes[2] = card.synchronize();
        });
        facts.note(
            format!("module.{name}.{}", kernel.to_string_lossy()),
            json!({ "codes": codes, "card_step": step }),
        );
    }
    let back = card.step(|| {
        call!(cuda, "cuModuleUnload"(*mut c_void: module));
    });
    facts.note(format!("module.{name}.unloaded"), back);
}

/// Launches a kernel without arguments as one thread.
fn launch(card: &Card, function: *mut c_void) -> i32 {
    let null = core::ptr::null_mut();
    call!(card.cuda, "cuLaunchKernel"(
        *mut c_void: function, u32: 1, u32: 1, u32: 1, u32: 1, u32: 1, u32: 1, u32: 0,
        *mut c_void: null, *mut *mut c_void: core::ptr::null_mut(), *mut *mut c_void: core::ptr::null_mut()
    ))
}

/// Limits, raised and lowered, and the launch after each change.
pub fn limits(card: &Card, facts: &mut Facts) {
    let cuda = &card.cuda;
    let mut module = core::ptr::null_mut();
    let mut function = core::ptr::null_mut();
    call!(cuda, "cuModuleLoadData"(
        *mut *mut c_void: &mut module, *const c_void: KERNELS.as_ptr().cast()
    ));
    call!(cuda, "cuModuleGetFunction"(
        *mut *mut c_void: &mut function, *mut c_void: module, *const c_char: c"plain".as_ptr()
    ));
    launch(card, function);
    card.synchronize();
    // The heap cannot change its size again, so it is last.
    for (name, which, larger) in [
        ("stack", 0u32, 16 << 10),
        ("printf", 1, 32 << 20),
        ("heap", 2, 64 << 20),
    ] {
        let mut was = 0usize;
        call!(cuda, "cuCtxGetLimit"(*mut usize: &mut was, u32: which));
        let mut codes = [0; 3];
        let raised =
            card.step(|| codes[0] = call!(cuda, "cuCtxSetLimit"(u32: which, usize: larger)));
        let launched = card.step(|| {
            codes[1] = launch(card, function);
            card.synchronize();
        });
        let lowered = card.step(|| codes[2] = call!(cuda, "cuCtxSetLimit"(u32: which, usize: was)));
        facts.note(
            format!("limit.{name}"),
            json!({
                "default": was, "codes": codes, "raised_step": raised, "launch_step": launched,
                "lowered_step": lowered,
            }),
        );
    }
    call!(cuda, "cuModuleUnload"(*mut c_void: module));
}
