//! What a run costs, and what is billed for it, is what its turns cost and add.

use crate::support::{echo_tool, world};
use placet_core::event::EventBody;
use placet_core::price::Meter;
use placet_core::{Billing, Markup, ModelPrice, Money, Usage};
use placet_models::ScriptTurn;
use placet_observe::{Happening, replay};
use proptest::prelude::*;
use rust_decimal::Decimal;
use serde_json::json;
use std::sync::Arc;

fn rates(input: u32, output: u32) -> ModelPrice {
    let rate = |cents: u32| Decimal::new(i64::from(cents), 2);
    ModelPrice::new().with(Meter::Input, None, None, rate(input)).with(Meter::Output, None, None, rate(output))
}

fn billing() -> impl Strategy<Value = Billing> {
    let at_rates = (0_u32..500, 0_u32..500).prop_map(|(input, output)| Billing::Rates(Arc::new(rates(input, output))));
    let markup = (0_u32..500, 0_u32..200, 0_u32..200, proptest::option::of(0_u32..6)).prop_map(
        |(multiplier, fixed, minimum, round_to)| {
            let part = |hundredths: u32| Decimal::new(i64::from(hundredths), 2);
            Billing::Markup(Markup {
                multiplier: part(multiplier),
                fixed_per_run: part(fixed),
                minimum_charge: part(minimum),
                round_to,
            })
        },
    );
    prop_oneof![at_rates, markup]
}

fn used() -> impl Strategy<Value = Option<Usage>> {
    let usage =
        (0_u64..2_000_000, 0_u64..200_000).prop_map(|(input, output)| Usage { input, output, ..Usage::default() });
    prop_oneof![19 => usage.prop_map(Some), 1 => Just(None)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_cost_of_a_run_and_what_is_billed_is_the_sum_of_its_turns(
        turns in proptest::collection::vec(used(), 1..8),
        billing in billing(),
        priced in prop_oneof![3 => Just(true), 1 => Just(false)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = world();
            let last = turns.len() - 1;
            let script = turns.iter().enumerate().map(|(place, used)| {
                let turn = match place {
                    place if place == last => ScriptTurn::text("Done."),
                    _ => ScriptTurn::call("echo", json!({"word": "a"})),
                };
                ScriptTurn { usage: *used, ..turn }
            });
            let run = world.runtime(script.collect()).run("scripted:m").input("hi").tool(echo_tool("echo").0);
            let run = run.rates(priced.then(|| Arc::new(rates(125, 1000)))).billing(billing.clone());
            let result = run.await.unwrap();
            world.check(&result).await;

            let journal = world.journal(&result.run).await;
            let completed: Vec<_> = journal.events().filter_map(|event| match event.body {
                EventBody::TurnCompleted(completed) => Some((completed.cost, completed.billed)),
                _ => None,
            }).collect();
            assert_eq!(completed.len(), turns.len());
            let sum = |all: Vec<Option<Money>>| all.into_iter().try_fold(Money::ZERO, |sum, one| Some(sum + one?));
            let billed: Vec<_> = completed.iter().map(|(_, billed)| *billed).collect();
            assert!(billed.iter().flatten().all(|billed| *billed >= Money::ZERO), "{billed:?}");
            assert_eq!(sum(completed.iter().map(|(cost, _)| *cost).collect()), result.cost);
            assert_eq!(sum(billed.clone()), result.billed);
            let told: Vec<_> = replay(&journal).timeline.into_iter().filter_map(|moment| match moment.what {
                Happening::Turn { billed, .. } => Some(billed),
                _ => None,
            }).collect();
            assert_eq!(told, billed);
        });
    }
}
