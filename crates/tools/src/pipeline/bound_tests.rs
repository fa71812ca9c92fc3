#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use placet_core::part::{Inline, Media};
use placet_core::{Stage, Status};
use proptest::prelude::*;

fn outcome(parts: Vec<Part>) -> Outcome {
    let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, "");
    outcome.content = parts;
    outcome
}

fn picture(bytes: usize) -> Part {
    Part::Image(Media {
        source: MediaSource::Inline(Inline { base64: "A".repeat(bytes).into() }),
        mime_type: Some("image/png".into()),
        name: None,
        detail: None,
        cache: None,
        native: None,
    })
}

#[test]
fn a_text_within_bounds_stays_as_it_is() {
    let mut whole = outcome(vec![Part::text("a\nb")]);
    let before = whole.clone();
    content(&mut whole, &Bounds::default());
    assert_eq!(whole, before);
}

#[test]
fn a_cut_says_what_it_cut_for_each_way_of_keeping() {
    let text: String = (0..200).map(|number| format!("line {number}\n")).collect();
    for (keep, begins, ends, says) in [
        (Keep::Head, "line 0\n", "bytes are shown]", "[cut: the first "),
        (Keep::Tail, "[cut: the last ", "line 199\n", "bytes are shown]\n"),
        (Keep::HeadAndTail, "line 0\n", "line 199\n", "bytes are left out here]\n"),
    ] {
        let mut cut = outcome(vec![Part::text(text.as_str())]);
        content(&mut cut, &Bounds::text(600).keeping(keep));
        let shown = cut.text();
        assert!(shown.starts_with(begins) && shown.ends_with(ends) && shown.contains(says), "{keep:?}: {shown}");
        let told = cut.cut.expect("it was cut");
        assert_eq!((told.total, told.unit.as_str()), (text.len() as u64, "bytes"));
        assert!(text_size(&shown) <= 600, "{}", text_size(&shown));
        assert!(told.kept > 300 && told.kept < 600, "{told:?}");
    }
}

#[test]
fn a_picture_that_does_not_fit_is_left_out_whole() {
    let bounds = Bounds { media: 2000, ..Bounds::default() };
    let mut mixed = outcome(vec![picture(1000), Part::text("between"), picture(1500), picture(300)]);
    content(&mut mixed, &bounds);
    assert!(matches!(mixed.content[0], Part::Image(_)) && matches!(mixed.content[3], Part::Image(_)));
    assert!(mixed.content[2].as_text().unwrap().starts_with("[cut: a part (image)"));
    assert_eq!(mixed.cut, Some(Cut { kept: 2, total: 3, unit: "media".into() }));
}

#[test]
fn a_payload_that_does_not_fit_is_left_out_and_the_facts_say_so() {
    let mut large = outcome(vec![]);
    large.payload = Some(json!("x".repeat(300)));
    content(&mut large, &Bounds { payload: 100, ..Bounds::default() });
    assert_eq!(large.payload, None);
    assert_eq!(large.facts["payload_cut"]["total"], 302);
}

#[test]
fn labels_that_are_left_out_never_make_content_look_safe() {
    let mut many = outcome(vec![]);
    many.origin = (0..10_000).map(|number| Origin::Tool(format!("tool number {number}"))).collect();
    assert!(!many.origin.is_untrusted());
    aside(&mut many);
    assert!(many.origin.is_untrusted() && json_size(&many.origin) < 20_000);
}

#[test]
fn adjacent_texts_become_one() {
    let mut parts = vec![Part::text("a"), Part::text("b"), picture(4), Part::text("c"), Part::text("d")];
    join_texts(&mut parts);
    assert_eq!(parts, [Part::text("ab"), picture(4), Part::text("cd")]);
}

proptest! {
    #[test]
    fn a_cut_text_fits_its_bound_and_keeps_a_true_piece(
        text in "(?s).{0,900}", room in 256_usize..700, keep in prop_oneof![Just(Keep::Head), Just(Keep::Tail), Just(Keep::HeadAndTail)]
    ) {
        let mut cut = outcome(vec![Part::text(text.as_str())]);
        content(&mut cut, &Bounds::text(room).keeping(keep));
        let shown = cut.text();
        prop_assert!(text_size(&shown) <= room, "{} > {room}", text_size(&shown));
        match &cut.cut {
            None => prop_assert_eq!(shown, text),
            Some(told) => {
                prop_assert!(text_size(&text) > room);
                prop_assert!(told.kept < told.total && told.total == text.len() as u64);
                match keep {
                    Keep::Head => prop_assert!(text.starts_with(&shown[..usize::try_from(told.kept).unwrap()])),
                    Keep::Tail => prop_assert!(text.ends_with(&shown[shown.len() - usize::try_from(told.kept).unwrap()..])),
                    Keep::HeadAndTail => {}
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn many_parts_fit_their_bound(texts in prop::collection::vec("(?s).{0,60}", 0..400), room in 256_usize..4000) {
        let mut parts = Vec::new();
        for text in texts {
            parts.push(Part::text(text));
            parts.push(picture(3));
        }
        let mut cut = outcome(parts);
        content(&mut cut, &Bounds::text(room));
        let size: usize = cut.content.iter().filter_map(Part::as_text).map(text_size).sum();
        prop_assert!(size <= room && cut.content.len() <= PARTS);
    }
}
