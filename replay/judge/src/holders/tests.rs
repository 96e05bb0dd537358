//! What the recorder wrote is read.

use super::*;

const TEXT: &str = "walk whole 1200 10 20 4096 4000\n\
    holder object own 3000 3 3000\ntext m.preds[0…2]\nplace local of main (t.py:3)\nunused\n\
    holder graph other 1000 1 -\ntext loss\nplace global of __main__\n\
    block 1000 0\nblock 2000 0\nblock 3000 0\nblock 4000 1\nblock zz 1\nunknown line\n";

#[test]
fn what_the_recorder_wrote_is_read() {
    let read = Holders::read(TEXT);
    assert_eq!(
        (read.cut.as_deref(), read.micros, read.live),
        (None, 1200, 4096)
    );
    let [preds, loss] = &read.all[..] else {
        panic!("{read:?}")
    };
    assert_eq!(
        (preds.kind, preds.bytes, preds.frees),
        (HolderKind::Object, 3000, Some(3000))
    );
    assert_eq!(
        (&*preds.text, &*preds.place),
        ("m.preds[0…2]", "local of main (t.py:3)")
    );
    assert_eq!((loss.kind, loss.frees), (HolderKind::Graph, None));
    assert_eq!(
        [preds.unused_after(), loss.unused_after()],
        [Some("3"), None]
    );
}

#[test]
fn blocks_have_few_holders_or_none() {
    let read = Holders::read(TEXT);
    assert_eq!(read.of(&[(0x1000, 900), (0x2000, 900)]), [0]);
    assert_eq!(read.of(&[(0x1000, 900), (0x4000, 800)]), [0, 1]);
    assert_eq!(
        read.of(&[(0x1000, 900), (0x4000, 50)]),
        [0],
        "the rest is small"
    );
    assert!(
        read.of(&[(0x4000, 900), (0x5000, 2000)]).is_empty(),
        "most is not known"
    );
    assert!(read.of(&[]).is_empty());
}

#[test]
fn what_functools_keeps_is_its() {
    let of = |text: &str| Holder {
        text: text.to_owned(),
        ..Holders::read(TEXT).all.remove(0)
    };
    let cache = of("cache of Store.embed()['emb'], 6 results");
    assert_eq!(cache.cached_by(), Some("Store.embed"));
    assert_eq!(cache.name(), "Store.embed()");
    assert!(cache.is_container() && cache.is_element() && !cache.is_variable());
    let list = of("cache of state().history[0…213], 1 result");
    assert_eq!((list.cached_by(), list.name()), (None, "state().history"));
    let property = of("samples[0…6].mask, cached property");
    assert_eq!(
        (
            property.cached_property(),
            property.cached_by(),
            property.name()
        ),
        (Some("mask"), None, "samples")
    );
    assert_eq!(of("tasks[0].result()").name(), "tasks");
    let text = of("d['a()', 3 results]");
    assert_eq!((text.cached_by(), text.name()), (None, "d"));
    assert!(of("tasks[0…2] → coroutine handle (s.py:31) logits").is_of_calls());
}

#[test]
fn a_list_in_the_state_of_an_optimizer_is_an_object() {
    let of = |text: &str| Holder {
        text: text.to_owned(),
        ..Holders::read(TEXT).all.remove(0)
    };
    for (text, name, is_list) in [
        ("opt.state[…]['exp_avg']", "opt.state", false),
        ("opt.state[…]['old'][0…51]", "opt.state[…]['old']", true),
        ("opt.state[0…1]", "opt.state", false),
        ("net.state[…]['old'][0…51]", "net.state[…]['old']", true),
    ] {
        let of = of(text);
        assert_eq!((of.name(), of.is_in_list_in_state()), (name, is_list));
    }
}

#[test]
fn text_of_another_form_is_left_out() {
    let read = Holders::read("walk\nholder\nholder x y z w\ntext a\nplace\nblock\n");
    assert_eq!(read, Holders::default());
}
