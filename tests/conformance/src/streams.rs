//! Memory that streams take. An H100 with driver 580 allocated 2 MiB for each 4 streams of any flags and priority, and
//! sometimes a page more: 4 MiB for the first 8 of a context, 22 for the next 40. It released nothing before the end of
//! the context, and allocated nothing for 40 streams that were created again.

use std::ffi::c_void;

use serde_json::json;

use crate::card::{Card, Facts};
use crate::library::call;

/// Runs all checks of this file.
pub fn check(card: &Card, facts: &mut Facts) {
    let mut made = Vec::new();
    for (name, count) in [("8", 8), ("40_more", 40)] {
        facts.note(format!("stream.{name}"), make(card, &mut made, count));
    }
    let back = card.step(|| {
        for stream in made.drain(..) {
            call!(card.cuda, "cuStreamDestroy_v2"(*mut c_void: stream));
        }
    });
    facts.note("stream.destroyed_card_step", back);
    facts.note("stream.40_again", make(card, &mut made, 40));
    for stream in made {
        call!(card.cuda, "cuStreamDestroy_v2"(*mut c_void: stream));
    }
}

/// Creates `count` streams. Reports how many failed, the change of the card's figure, and how many streams changed it.
fn make(card: &Card, made: &mut Vec<*mut c_void>, count: usize) -> serde_json::Value {
    let (mut failed, mut steps) = (0, Vec::new());
    for _ in 0..count {
        let mut stream = core::ptr::null_mut();
        steps.push(card.step(|| {
            let code = call!(card.cuda, "cuStreamCreateWithPriority"(
                *mut *mut c_void: &mut stream, u32: 1, i32: 0
            ));
            failed += usize::from(code != 0);
        }));
        made.push(stream);
    }
    let moved = steps.iter().filter(|step| **step != 0).count();
    json!({ "failed": failed, "card_step": steps.iter().sum::<i64>(), "moved_at": moved })
}
