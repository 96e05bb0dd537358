//! Memory that blocks take: rounding, page sharing, pitch, managed and pinned memory, arrays.

use std::collections::BTreeSet;
use std::ffi::c_void;

use gpumem_cuda_abi::CuArray3dDescriptor;
use serde_json::json;

use crate::card::{Card, Facts};
use crate::library::call;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The size of the pages in which a card allocates memory.
const PAGE: u64 = 2 << 20;

/// Bytes of the pages that blocks touch, each page counted once.
fn pages(blocks: &[(u64, usize)]) -> i64 {
    let touched: BTreeSet<u64> = blocks
        .iter()
        .flat_map(|(start, bytes)| start / PAGE..=(start + *bytes as u64 - 1) / PAGE)
        .collect();
    (touched.len() as u64 * PAGE) as i64
}

/// Runs all checks of this file.
pub fn check(card: &Card, facts: &mut Facts) {
    sizes(card, facts);
    sharing(card, facts);
    other_kinds(card, facts);
    arrays(card, facts);
}

/// Single blocks: their alignment and the change of the card's figures.
fn sizes(card: &Card, facts: &mut Facts) {
    const SIZES: &[usize] = &[
        1,
        255,
        256,
        257,
        511,
        512,
        513,
        4096,
        65_536,
        512 * KIB,
        MIB - 1,
        MIB,
        MIB + 1,
        2 * MIB - 1,
        2 * MIB,
        2 * MIB + 1,
        3 * MIB,
        4 * MIB,
        10 * MIB,
        20 * MIB + 1,
        64 * MIB,
        100 * MIB,
    ];
    for &bytes in SIZES {
        let before = card.nvml();
        let mut block = Err(0);
        let step = card.step(|| block = card.alloc(bytes));
        let pointer = match block {
            Ok(pointer) => pointer,
            Err(code) => {
                facts.note(format!("block.{bytes}"), format!("error {code}"));
                continue;
            }
        };
        let nvml = before.zip(card.nvml()).map(|(b, a)| a.v1 - b.v1);
        let back = card.step(|| {
            card.free(pointer);
        });
        facts.note(
            format!("block.{bytes}"),
            json!({
                "aligned_512": pointer.is_multiple_of(512),
                "aligned_page": pointer.is_multiple_of(PAGE),
                "card_step": step,
                "card_back": back,
                "nvml_step": nvml,
                "page_rule": pages(&[(pointer, bytes)]),
            }),
        );
    }
}

/// Many small blocks at once: their addresses, the pages that they share, and when a page is
/// released.
fn sharing(card: &Card, facts: &mut Facts) {
    const KINDS: &[(usize, usize)] = &[
        (1, 64),
        (512, 5000),
        (4 * KIB, 600),
        (64 * KIB, 64),
        (256 * KIB, 16),
        (512 * KIB, 8),
        (MIB - 512, 8),
        (MIB, 8),
        (MIB + 512, 8),
        (1536 * KIB, 8),
        (2 * MIB, 4),
        (2 * MIB + 512, 4),
        (3 * MIB, 4),
        (5 * MIB + 512, 3),
    ];
    for &(bytes, count) in KINDS {
        let mut blocks = Vec::new();
        let step = card.step(|| {
            for _ in 0..count {
                blocks.extend(card.alloc(bytes).map(|pointer| (pointer, bytes)));
            }
        });
        let mut starts: Vec<u64> = blocks.iter().map(|(start, _)| *start).collect();
        starts.sort_unstable();
        let nearest = starts.windows(2).map(|w| w[1] - w[0]).min();
        let rule = pages(&blocks);
        let kept = blocks.pop();
        let back = card.step(|| {
            for (pointer, _) in blocks.drain(..) {
                card.free(pointer);
            }
        });
        let rest = card.step(|| {
            if let Some((pointer, _)) = kept {
                card.free(pointer);
            }
        });
        facts.note(
            format!("blocks.{count}x{bytes}"),
            json!({
                "card_step": step,
                "page_rule": rule,
                "nearest": nearest,
                "back_but_one": back,
                "back_last": rest,
            }),
        );
    }
    small_beside_large(card, facts);
}

/// Whether a small block is placed in the unused end of a larger one's last page.
fn small_beside_large(card: &Card, facts: &mut Facts) {
    let Ok(large) = card.alloc(2 * MIB + 512) else {
        return;
    };
    let mut small = Err(0);
    let step = card.step(|| small = card.alloc(512));
    let Ok(small) = small else { return };
    facts.note(
        "blocks.small_beside_large",
        json!({
            "card_step": step,
            "same_page": small / PAGE == (large + 2 * MIB as u64 + 511) / PAGE,
        }),
    );
    card.free(small);
    card.free(large);
}

fn other_kinds(card: &Card, facts: &mut Facts) {
    let cuda = &card.cuda;
    let (mut pointer, mut pitch) = (0u64, 0usize);
    let step = card.step(|| {
        call!(cuda, "cuMemAllocPitch_v2"(
            *mut u64: &mut pointer, *mut usize: &mut pitch, usize: 1000, usize: 5000, u32: 4
        ));
    });
    facts.note(
        "pitch.1000x5000",
        json!({ "pitch": pitch, "card_step": step }),
    );
    card.free(pointer);

    pointer = 0;
    let step = card.step(|| {
        call!(cuda, "cuMemAllocManaged"(*mut u64: &mut pointer, usize: 64 * MIB, u32: 1));
    });
    facts.note("managed.untouched_step", step);
    let step = card.step(|| {
        call!(cuda, "cuMemsetD8_v2"(u64: pointer, u8: 1, usize: 64 * MIB));
        card.synchronize();
    });
    facts.note("managed.touched_step", step);
    let step = card.step(|| {
        card.free(pointer);
    });
    facts.note("managed.freed_step", step);
    // Shows whether the first touch has a single cost or one in proportion to the touched bytes.
    let step = card.step(|| {
        call!(cuda, "cuMemAllocManaged"(*mut u64: &mut pointer, usize: 16 * MIB, u32: 1));
        call!(cuda, "cuMemsetD8_v2"(u64: pointer, u8: 1, usize: 16 * MIB));
        card.synchronize();
    });
    facts.note("managed.again_touched_step", step);
    let step = card.step(|| {
        card.free(pointer);
    });
    facts.note("managed.again_freed_step", step);

    let mut host: *mut c_void = core::ptr::null_mut();
    let step = card.step(|| {
        call!(cuda, "cuMemAllocHost_v2"(*mut *mut c_void: &mut host, usize: 64 * MIB));
    });
    facts.note("pinned.step", step);
    call!(cuda, "cuMemFreeHost"(*mut c_void: host));
    let mut own = vec![0u8; 4 * MIB];
    let step = card.step(|| {
        let code = call!(cuda, "cuMemHostRegister_v2"(
            *mut c_void: own.as_mut_ptr().cast(), usize: own.len(), u32: 0
        ));
        facts.note("registered.code", code);
    });
    facts.note("registered.step", step);
    call!(cuda, "cuMemHostUnregister"(*mut c_void: own.as_mut_ptr().cast()));
}

/// Arrays, with the size that the driver reports for each.
fn arrays(card: &Card, facts: &mut Facts) {
    #[repr(C)]
    #[derive(Default)]
    struct Requirements {
        size: usize,
        alignment: usize,
        reserved: [u32; 4],
    }
    const FLOAT: u32 = 0x20;
    const BYTE: u32 = 0x01;
    let shapes = [
        ("1d", 5000, 0, 0, FLOAT, 1),
        ("small", 16, 16, 0, BYTE, 1),
        ("2d", 1024, 1024, 0, FLOAT, 1),
        ("odd", 1000, 777, 0, FLOAT, 4),
        ("3d", 64, 64, 64, FLOAT, 4),
        // The padding that a card adds to these shows how many rows it lays out together.
        ("rows", 4000, 130, 0, FLOAT, 4),
        ("few_rows", 100_000, 20, 0, FLOAT, 4),
        ("3d_rows", 4000, 130, 3, FLOAT, 4),
    ];
    for (name, width, height, depth, format, num_channels) in shapes {
        let descriptor = CuArray3dDescriptor {
            width,
            height,
            depth,
            format,
            num_channels,
            flags: 0,
        };
        let mut array = core::ptr::null_mut();
        let mut code = 0;
        let step = card.step(|| {
            code = call!(card.cuda, "cuArray3DCreate_v2"(
                *mut *mut c_void: &mut array, *const CuArray3dDescriptor: &descriptor
            ));
        });
        let mut needs = Requirements::default();
        let asked = call!(card.cuda, "cuArrayGetMemoryRequirements"(
            *mut Requirements: &mut needs, *mut c_void: array, i32: 0
        ));
        let mut back = 0;
        if code == 0 {
            back = card.step(|| {
                call!(card.cuda, "cuArrayDestroy"(*mut c_void: array));
            });
        }
        facts.note(
            format!("array.{name}"),
            json!({
                "code": code, "card_step": step, "card_back": back, "asked": asked,
                "needs": needs.size, "alignment": needs.alignment,
            }),
        );
    }
}
