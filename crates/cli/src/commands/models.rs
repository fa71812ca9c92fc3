//! `placet models`: which models there are, what they can and cost, and how they call tools.

use crate::args::ModelsCommand;
use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::models::{Found, catalog, prices};
use crate::output::{Tone, printable};
use placet_core::price::Meter;
use placet_core::{Circumstances, ModelPrice, Usage};
use placet_models::probe::{keep, kept, probe};
use placet_models::vendor::vendor;
use placet_models::{AskContext, Catalog, CatalogModel, FeatureStatus, Lifecycle, ModelRef, Probe, ResolvedModel};
use serde_json::json;
use std::sync::Arc;

pub(crate) async fn models(house: &House, command: &ModelsCommand) -> Done {
    match command {
        ModelsCommand::List { provider: Some(provider), server: true, base_url, .. } => {
            list_of_server(house, provider, base_url.as_deref()).await
        }
        ModelsCommand::List { provider, all, .. } => list(house, provider.as_deref(), *all),
        ModelsCommand::Show { model } => show(house, model).await,
        ModelsCommand::Price { model, input, cached, cache_write, output, tier } => {
            let usage = Usage {
                input: *input,
                cache_read: *cached,
                cache_write: *cache_write,
                output: *output,
                ..Usage::default()
            };
            price(house, model, &usage, tier.as_deref())
        }
        ModelsCommand::Probe { model, base_url } => ask(house, model, base_url.as_deref()).await,
    }
}

fn facts(house: &House) -> Result<Arc<Catalog>, Failure> {
    Ok(catalog(house)?.unwrap_or_else(Catalog::bundled))
}

/// What the catalog knows of a model, whatever protocol it is asked in.
fn known(catalog: &Catalog, model: &ModelRef) -> Option<Arc<CatalogModel>> {
    let provider = model.provider.as_str();
    let family = vendor(provider).and_then(|row| row.catalog).unwrap_or(provider);
    catalog.find(family, &model.model).cloned()
}

fn list(house: &House, provider: Option<&str>, all: bool) -> Done {
    let catalog = facts(house)?;
    let family = provider.map(|name| vendor(name).map_or(name, |row| row.catalog.unwrap_or(row.id)));
    let now = house.env.now();
    let wanted = |model: &&Arc<CatalogModel>| {
        family.is_none_or(|family| model.provider == family)
            && (all || (model.is_chat() && model.lifecycle(now) != Lifecycle::Retired))
    };
    let mut models: Vec<&Arc<CatalogModel>> = catalog.models().filter(wanted).collect();
    models.sort_by(|a, b| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
    let output = &house.output;
    if output.json {
        for model in models {
            let mut line = serde_json::to_value(&**model).unwrap_or_default();
            line["lifecycle"] = json!(model.lifecycle(now));
            output.json_line(&line);
        }
        return Ok(());
    }
    if models.is_empty() {
        let whose = provider.map_or_else(String::new, |name| format!(" of {name}"));
        output.line(&format!("The catalog knows no model{whose}."));
        output.note("hint: `placet models list --provider NAME --server` asks a provider's own server");
        return Ok(());
    }
    let wide = models.iter().map(|model| model.provider.len() + model.id.len() + 1).max().unwrap_or(0);
    for model in models {
        let rate = |meter| {
            let rate = model.prices.as_ref().and_then(|prices| prices.base(meter));
            rate.map_or_else(|| "?".to_owned(), |rate| format!("${}", rate.normalize()))
        };
        let life = match model.lifecycle(now) {
            Lifecycle::Active => String::new(),
            life => format!("  {life}{}", model.retires.as_ref().map_or_else(String::new, |day| format!(" {day}"))),
        };
        let name = format!("{}:{}", model.provider, model.id);
        let window = model.window.map_or_else(|| "?".to_owned(), thousands);
        let costs = format!("{} / {}", rate(Meter::Input), rate(Meter::Output));
        output.line(&format!("{name:wide$}  {window:>6}  {costs:<18}{}", output.paint(Tone::Quiet, life.trim_end())));
    }
    output.note("Each with the tokens it reads and US dollars per million tokens of input / output.");
    Ok(())
}

fn thousands(tokens: u64) -> String {
    format!("{}k", tokens / 1000)
}

async fn list_of_server(house: &House, provider: &str, base_url: Option<&str>) -> Done {
    let found = Found::new(house, Some(provider), base_url)?;
    let Some(asked) = found.providers.get(provider) else {
        let known: Vec<&str> = found.providers.ids().map(|id| id.as_str()).collect();
        return Err(Failure::new(Code::NotFound, format!("no provider is called {provider:?}"))
            .hint(format!("known are {}", known.join(", "))));
    };
    for model in asked.models(AskContext::new(house.env.clone())).await? {
        if house.output.json {
            house.output.json_line(&json!({"id": model.id, "description": model.description}));
        } else {
            let what = model.description.map_or_else(String::new, |what| format!("  {what}"));
            house.output.line(&printable(&format!("{provider}:{}{what}", model.id)));
        }
    }
    Ok(())
}

fn resolve(house: &House, reference: &str, base_url: Option<&str>) -> Result<ResolvedModel, Failure> {
    let provider = ModelRef::parse(reference).ok().map(|reference| reference.provider.as_str().to_owned());
    Ok(Found::new(house, provider.as_deref(), base_url)?.providers.resolve(reference)?)
}

/// What a probe found before, where there is a store at all.
async fn probed(house: &House, model: &ModelRef) -> Result<Option<Probe>, Failure> {
    if !house.has_store() {
        return Ok(None);
    }
    Ok(kept(&*house.open_store().await?, &house.tenant, model).await?)
}

async fn show(house: &House, reference: &str) -> Done {
    let model = resolve(house, reference, None)?;
    let catalog = facts(house)?;
    let known = known(&catalog, &model.reference);
    let probe = probed(house, &model.reference).await?;
    if let Some(probe) = &probe {
        model.provider.learn(&model.reference.model, probe);
    }
    let profile = model.provider.profile(&model.reference.model);
    let price = prices(house)?.price(&model.reference);
    let now = house.env.now();
    let output = &house.output;
    if output.json {
        output.json_line(&json!({
            "model": model.reference.to_string(),
            "lifecycle": known.as_ref().map(|known| known.lifecycle(now)),
            "catalog": known.as_deref(),
            "profile": profile.as_deref(),
            "output_strategies": profile.as_ref().map(|profile| profile.output_strategies()),
            "probe": probe,
            "price": price.as_ref().map(|(price, source)| json!({"rates": &**price, "source": source})),
        }));
        return Ok(());
    }
    output.line(&output.paint(Tone::Strong, &model.reference.to_string()));
    match &known {
        Some(known) => about(house, known),
        None => output.line("  the catalog does not know it"),
    }
    if let Some(profile) = &profile {
        output.line(&format!("  asked in {}", profile.protocol));
        for status in [FeatureStatus::Conditional, FeatureStatus::Passthrough, FeatureStatus::Unsupported] {
            for (field, feature) in profile.features.iter().filter(|(_, feature)| feature.status == status) {
                let why = feature.reason.as_deref().unwrap_or_default();
                output.line(&format!("  {status} {field}{}", output.paint(Tone::Quiet, &format!("  {why}"))));
            }
        }
        for (field, feature) in profile.features.iter().filter(|(_, feature)| !feature.values.is_empty()) {
            output.line(&format!("  {field}: {}", feature.values.join(", ")));
        }
        let ways = profile.output_strategies();
        let ways = ways.iter().filter(|(_, feature)| feature.status == FeatureStatus::Supported);
        let ways: Vec<&str> = ways.map(|(strategy, _)| strategy.as_str()).collect();
        output.line(&format!("  answers in a given shape by {}", ways.join(", ")));
        for one in &profile.exclusions {
            output.line(&format!(
                "  not together: {}  {}",
                one.when.join(", "),
                output.paint(Tone::Quiet, &one.because)
            ));
        }
    }
    match &probe {
        Some(probe) => output.line(&format!("  asked on {}, it answers {}", probe.at, probe.answers)),
        None => output.note(&format!("`placet models probe {}` asks how it calls tools", model.reference)),
    }
    Ok(())
}

fn about(house: &House, known: &CatalogModel) {
    let output = &house.output;
    let mut life = known.lifecycle(house.env.now()).to_string();
    if let Some(day) = &known.retires {
        life.push_str(&format!(", goes on {day}"));
    }
    if let Some(next) = &known.replacement {
        life.push_str(&format!(", its provider says to use {next}"));
    }
    output.line(&format!("  {life}"));
    for (what, tokens) in [("reads", known.window), ("writes", known.output)] {
        if let Some(tokens) = tokens {
            output.line(&format!("  {what} {tokens} tokens at most"));
        }
    }
    if !known.aliases.is_empty() {
        output.line(&format!("  also called {}", known.aliases.join(", ")));
    }
    let cans: Vec<&str> = known.cans.iter().map(String::as_str).collect();
    if !cans.is_empty() {
        output.line(&format!("  can: {}", cans.join(", ")));
    }
    if let Some(source) = &known.source {
        output.line(&output.paint(Tone::Quiet, &format!("  {source}")));
    }
}

fn price(house: &House, reference: &str, usage: &Usage, tier: Option<&str>) -> Done {
    let model = resolve(house, reference, None)?.reference;
    let book = prices(house)?;
    let Some((price, source)) = book.price(&model) else {
        return Err(Failure::new(Code::NotFound, format!("no price is known of {model}"))
            .hint("give one in prices.json of the home folder, or with `placet run --price` for one run"));
    };
    if let Some(tier) = tier.filter(|tier| !price.has_tier(tier)) {
        let known = price.tiers();
        let known = if known.is_empty() { "the usual one alone".to_owned() } else { known.join(", ") };
        return Err(Failure::new(Code::Usage, format!("no price is known of {model} in a tier {tier:?}"))
            .hint(format!("its tiers are: {known}; without --tier the usual price counts")));
    }
    let with = Circumstances::of_tier(tier);
    let asks = *usage != Usage::default();
    let cost = asks.then(|| price.cost(usage, &with));
    let billed = if asks { book.billable(&model, &[(*usage, with)]) } else { None };
    let output = &house.output;
    if output.json {
        output.json_line(&json!({
            "model": model.to_string(), "source": source, "currency": "USD", "rates": &*price,
            "cost": cost.flatten(), "billed": billed,
        }));
        return Ok(());
    }
    let from = facts(house)?;
    let said_by = match source {
        placet_models::PriceSource::User => "as you say".to_owned(),
        placet_models::PriceSource::Catalog => {
            format!("{}, retrieved {}", from.source().source, from.source().retrieved)
        }
    };
    output.line(&format!(
        "{}  {}",
        output.paint(Tone::Strong, &model.to_string()),
        output.paint(Tone::Quiet, &said_by)
    ));
    rates(house, &price);
    if let Some(cost) = cost {
        output.line(&cost.map_or_else(|| "cost unknown".to_owned(), |cost| format!("cost {cost}")));
    }
    if let Some(billed) = billed {
        output.line(&format!("billed {billed}"));
    }
    Ok(())
}

fn rates(house: &House, price: &ModelPrice) {
    for (key, rate) in price.rates() {
        let unit = if key.meter.is_per_million() { "a million tokens" } else { "each" };
        let above = key.above.map_or_else(String::new, |above| format!(", above {above}k tokens of input"));
        let tier = key.tier.as_ref().map_or_else(String::new, |tier| format!(", tier {tier}"));
        house.output.line(&format!("  {:<18} ${} {unit}{above}{tier}", key.meter.as_str(), rate.normalize()));
    }
    for (name, factor) in price.factors() {
        house.output.line(&format!("  {name:<18} all tokens times {}", factor.normalize()));
    }
}

async fn ask(house: &House, reference: &str, base_url: Option<&str>) -> Done {
    let model = resolve(house, reference, base_url)?;
    if !house.output.json {
        house.output.note(&format!("asking {} …", model.reference));
    }
    let name = crate::models::model_name(&model.reference);
    let found = probe(&*model.provider, &name, &AskContext::new(house.env.clone())).await?;
    keep(&*house.open_store().await?, &house.tenant, &model.reference, &found).await?;
    if house.output.json {
        house.output.json_line(&found);
    } else {
        house.output.line(&format!("{} answers {}", model.reference, found.answers));
        if let Some(said) = found.said.as_ref().filter(|_| found.answers == placet_models::ToolAnswer::None) {
            house.output.line(&printable(&format!("it said: {said}")));
        }
    }
    Ok(())
}
