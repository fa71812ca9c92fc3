#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use serde_json::json;

fn price(rates: serde_json::Value) -> ModelPrice {
    serde_json::from_value(rates).expect("a price")
}

fn cost(price: &ModelPrice, usage: Usage, circumstances: &Circumstances) -> String {
    price.cost(&usage, circumstances).map_or_else(|| "unknown".to_owned(), |cost| cost.to_string())
}

fn rate(price: &ModelPrice, meter: &str, tier: Option<&str>, total: u64) -> String {
    price.rate(&meter.into(), tier, total).map_or_else(|| "none".to_owned(), |rate| rate.normalize().to_string())
}

#[test]
fn it_survives_a_round_trip_and_refuses_nonsense() {
    let text = json!({"input": "2.5", "input@272k": "5", "input@272k+flex": "2.5", "output": "15", "search": "0.01",
                      "tokens_of_the_future": "1", "*fast": "2"});
    assert_eq!(serde_json::to_value(price(text.clone())).unwrap().as_object().unwrap().len(), 7);
    assert_eq!(price(serde_json::to_value(price(text.clone())).unwrap()), price(text));
    for wrong in [json!({"input@272": "1"}), json!({"input+": "1"}), json!({"@1k": "1"}), json!({"input": "-1"})] {
        assert!(serde_json::from_value::<ModelPrice>(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn lifetimes_lengths_and_tiers_each_have_their_rate() {
    let price = price(json!({
        "input": "4", "input@200k": "8", "input+batches": "2", "output": "20", "cache_read": "0.4", "cache_write": "5",
        "cache_write_1h": "8", "cache_write+batches": "2.5", "input@200k+priority": "30", "input+priority": "10",
    }));
    for (meter, tier, total, wanted) in [
        ("input", None, 200_000, "4"),
        ("input", None, 200_001, "8"),
        ("input", Some("batches"), 1, "2"),
        ("input", Some("priority"), 200_001, "30"),
        // Both together, in proportion.
        ("input", Some("batches"), 200_001, "4"),
        ("cache_write", Some("batches"), 1, "2.5"),
        // As `input` changes.
        ("cache_write_1h", Some("batches"), 1, "4"),
        ("output", Some("batches"), 1, "10"),
        ("cache_write_12h", None, 1, "5"),
        ("reasoning", None, 1, "20"),
        ("output", Some("no such tier"), 1, "20"),
        ("search", None, 1, "none"),
    ] {
        assert_eq!(rate(&price, meter, tier, total), wanted, "{meter} {tier:?} {total}");
    }
}

#[test]
fn a_bill_takes_parts_out_of_the_whole() {
    let price = price(json!({
        "input": "1", "output": "2", "reasoning": "3", "input_audio": "10", "output_audio": "20", "cache_read": "0.1",
        "cache_write_1h": "2", "search": "0.01", "search_high": "0.05", "code_session": "0.03", "*us": "1.1", "*fast": "2",
    }));
    let usage = Usage {
        input: 100,
        input_audio: 40,
        output: 100,
        output_audio: 10,
        reasoning: 20,
        cache_read: 1000,
        cache_write_long: 50,
        searches: 2,
        ..Usage::default()
    };
    // 60*1 + 40*10 + 1000*0.1 + 50*2 + 70*2 + 10*20 + 20*3 = 1060 millionths, and two searches.
    assert_eq!(cost(&price, usage, &Circumstances::default()), "$0.02106");
    let with = Circumstances {
        tier: Some("fast".into()),
        region: Some("us".into()),
        search_size: Some("high".into()),
        uses: vec![(Meter::CodeSession, 1)],
    };
    assert_eq!(cost(&price, usage, &with), "$0.132332");
    let text = Usage { output: 1, ..Usage::default() };
    let input_only = ModelPrice::new().with(Meter::Input, None, None, Decimal::ONE);
    assert_eq!(cost(&input_only, text, &Circumstances::default()), "unknown");
    assert_eq!(cost(&input_only, Usage::default(), &Circumstances::default()), "$0");
}

#[test]
fn a_simple_price_costs_the_same_either_way_and_no_number_panics() {
    let simple = Price {
        input: "3".parse().unwrap(),
        output: "15".parse().unwrap(),
        cache_read: Some("0.3".parse().unwrap()),
        cache_write: None,
        cache_write_long: Some("6".parse().unwrap()),
    };
    let usage = Usage { input: 7, cache_read: 5, cache_write: 3, cache_write_long: 2, output: 11, ..Usage::default() };
    assert_eq!(ModelPrice::from(simple).cost(&usage, &Circumstances::default()), Some(usage.cost(&simple)));
    let dear = ModelPrice::new().with(Meter::Input, None, None, Decimal::MAX).with_factor("x", Decimal::MAX);
    let most = Usage { input: u64::MAX, ..Usage::default() };
    assert!(dear.cost(&most, &Circumstances::of_tier(Some("x"))).is_some());
}
