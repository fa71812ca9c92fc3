//! Holding a request against a profile.

use super::request::{leave_out, replace, uses, value};
use super::{Feature, FeatureStatus, ONE_CALL, Profile};
use placet_core::{ErrorKind, ProviderError, TurnRequest};
use placet_wire::fields::{ALL_FIELDS, Class, class_of};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Efforts, from little to much.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A request that the model can do.
#[derive(Clone, Debug)]
pub struct Checked<'r> {
    /// The request, without the hints that the model does not take.
    pub request: Cow<'r, TurnRequest>,
    /// The hints that were left out or changed, each with the reason.
    pub omitted: Vec<String>,
    /// Whether the answer is to be held to one call, for the server cannot be told: see [`ONE_CALL`](super::ONE_CALL).
    pub one_call: bool,
}

impl Profile {
    /// Holds a request against what the model can.
    ///
    /// # Errors
    /// [`ProviderError`] of kind *unsupported* that names the feature, the model and the reason, where content, a
    /// constraint or a restriction asks for what the model cannot do.
    pub fn check<'r>(&self, request: &'r TurnRequest) -> Result<Checked<'r>, ProviderError> {
        let mut checked = Checked { request: Cow::Borrowed(request), omitted: Vec::new(), one_call: false };
        for (name, feature) in &self.features {
            match feature.status {
                FeatureStatus::Unsupported => {
                    for field in fields_within(name).filter(|field| uses(request, field)) {
                        // Something closer may be said of it.
                        if self.status(field) == FeatureStatus::Unsupported {
                            self.refuse_or_leave_out(field, feature, &mut checked)?;
                        }
                    }
                }
                _ if !feature.values.is_empty() => self.check_value(name, feature, &mut checked)?,
                _ => {}
            }
        }
        for one in &self.exclusions {
            if !one.when.iter().all(|field| uses(&checked.request, field)) {
                continue;
            }
            let Some(hint) = &one.leave_out else {
                let features: Vec<String> = one.when.iter().map(|field| format!("`{field}`")).collect();
                return Err(self.unsupported(&features.join(" with "), &one.because));
            };
            if leave_out(checked.request.to_mut(), hint) {
                checked.omitted.push(format!("{hint} ({})", one.because));
            }
        }
        self.check_output(request)?;
        if let Some(feature) = self.feature(ONE_CALL).filter(|feature| feature.status == FeatureStatus::Conditional)
            && uses(&checked.request, ONE_CALL)
        {
            checked.request.to_mut().controls.parallel_tool_calls = None;
            checked.omitted.push(format!("{ONE_CALL} ({})", feature.reason.as_deref().unwrap_or("kept here")));
            checked.one_call = true;
        }
        Ok(checked)
    }

    fn refuse_or_leave_out(
        &self,
        field: &str,
        feature: &Feature,
        checked: &mut Checked<'_>,
    ) -> Result<(), ProviderError> {
        let reason = feature.reason.as_deref().unwrap_or("it does not take it");
        match class_of(field) {
            Some(Class::State) => Ok(()),
            Some(Class::Hint) => {
                if leave_out(checked.request.to_mut(), field) {
                    checked.omitted.push(format!("{field} ({reason})"));
                }
                Ok(())
            }
            _ => Err(self.unsupported(&format!("`{field}`"), reason)),
        }
    }

    fn check_value(&self, field: &str, feature: &Feature, checked: &mut Checked<'_>) -> Result<(), ProviderError> {
        let Some(asked) = value(&checked.request, field).map(str::to_owned) else { return Ok(()) };
        if feature.values.contains(&asked) {
            return Ok(());
        }
        let known = feature.values.join(", ");
        if class_of(field) != Some(Class::Hint) {
            return Err(self.unsupported(&format!("`{field}` {asked:?}"), &format!("it knows {known}")));
        }
        match nearest(&asked, &feature.values).filter(|_| field == "reasoning_effort") {
            Some(near) => {
                let told = format!("{field} {asked} (the model knows {known}; `{near}` is sent in its place)");
                let near = near.to_owned();
                replace(checked.request.to_mut(), field, &near);
                checked.omitted.push(told);
            }
            None => {
                if leave_out(checked.request.to_mut(), field) {
                    checked.omitted.push(format!("{field} {asked} (the model knows {known})"));
                }
            }
        }
        Ok(())
    }

    fn check_output(&self, request: &TurnRequest) -> Result<(), ProviderError> {
        let (Some(asked), Some(most)) = (request.controls.max_output_tokens, self.output) else { return Ok(()) };
        if asked <= most {
            return Ok(());
        }
        Err(self.unsupported(&format!("`max_output_tokens` {asked}"), &format!("it writes {most} at most")))
    }

    fn unsupported(&self, feature: &str, reason: &str) -> ProviderError {
        let model = if self.model.model.is_empty() { self.model.provider.as_str() } else { &self.model.model };
        let message = format!("the model `{model}` cannot do {feature}: {reason}");
        ProviderError::new(ErrorKind::Unsupported, self.model.provider.clone(), message)
            .with_hint(format!("`placet models show {}` tells what it can", self.model))
    }
}

/// The fields that a name stands for. They are looked for often, nearly always in vain.
fn fields_within(name: &str) -> impl Iterator<Item = &'static str> {
    static SORTED: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let mut fields: Vec<_> = ALL_FIELDS.iter().map(|(field, _)| *field).collect();
        fields.sort_unstable();
        fields
    });
    // A dot sorts before all else that follows a name, so that what is within it stands together.
    let first = SORTED.partition_point(|field| *field < name);
    SORTED.iter().skip(first).copied().take_while(move |field| super::is_within(field, name))
}

/// The known effort that is nearest to the one that was asked for; of two, the lesser.
fn nearest<'v>(asked: &str, known: &'v [String]) -> Option<&'v str> {
    let place = |effort: &str| EFFORTS.iter().position(|known| *known == effort);
    let wanted = place(asked)?;
    let near = known.iter().filter_map(|effort| Some((place(effort)?, effort.as_str())));
    near.min_by_key(|(at, _)| (at.abs_diff(wanted), *at)).map(|(_, effort)| effort)
}
