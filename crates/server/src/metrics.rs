//! Figures for Prometheus, in its text format.

use placet_core::Usage;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the histograms, in milliseconds.
const BOUNDS_MS: [u64; 13] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 15_000, 60_000, 300_000];

/// What requests are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    model: String,
    provider: String,
    target: String,
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    series: Mutex<BTreeMap<Labels, Arc<Series>>>,
    /// Requests that were answered by ourselves, by status.
    refused: Mutex<BTreeMap<u16, u64>>,
    /// Requests that are being answered.
    pub(crate) in_flight: AtomicI64,
    /// Connections that are open.
    pub(crate) connections: AtomicI64,
}

/// What is counted for one model at one provider.
#[derive(Debug, Default)]
pub(crate) struct Series {
    outcomes: [AtomicU64; 4],
    tokens: [AtomicU64; 5],
    first: Histogram,
    whole: Histogram,
    fallbacks: AtomicU64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer is whole.
    Whole,
    /// The provider refused or failed.
    Failed,
    /// The answer broke off.
    Cut,
    /// The client went away.
    Cancelled,
    /// We refused it, and asked nobody.
    Refused,
}

impl Outcome {
    /// Those that are counted for each target.
    const ALL: [Outcome; 4] = [Outcome::Whole, Outcome::Failed, Outcome::Cut, Outcome::Cancelled];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Whole => "whole",
            Outcome::Failed => "failed",
            Outcome::Cut => "cut",
            Outcome::Cancelled => "cancelled",
            Outcome::Refused => "refused",
        }
    }
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS_MS.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Histogram {
    fn note(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        if let Some(place) = BOUNDS_MS.iter().position(|bound| micros <= bound * 1000) {
            self.buckets[place].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut below = 0;
        for (bound, bucket) in BOUNDS_MS.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            let seconds = seconds(bound * 1000);
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{seconds}\"}} {below}");
        }
        let count = self.count.load(Ordering::Relaxed);
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", seconds(self.sum_us.load(Ordering::Relaxed)));
        let _ = writeln!(out, "{name}_count{{{labels}}} {count}");
    }
}

fn seconds(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:06}").trim_end_matches('0').to_owned() }
}

impl Series {
    pub(crate) fn note(&self, outcome: Outcome, usage: Option<&Usage>, first: Option<Duration>, whole: Duration) {
        let Some(counter) = self.outcomes.get(outcome as usize) else { return };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(usage) = usage {
            let counts = [
                usage.input,
                usage.cache_read,
                usage.cache_write + usage.cache_write_long,
                usage.output,
                usage.reasoning,
            ];
            for (counter, count) in self.tokens.iter().zip(counts) {
                if count > 0 {
                    counter.fetch_add(count, Ordering::Relaxed);
                }
            }
        }
        if let Some(first) = first {
            self.first.note(first);
        }
        self.whole.note(whole);
    }

    pub(crate) fn fell_back(&self) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// The series of a model at a provider: the same one for the same names, also after a reload.
    pub(crate) fn series(&self, model: &str, provider: &str, target: &str) -> Arc<Series> {
        let labels = Labels { model: model.to_owned(), provider: provider.to_owned(), target: target.to_owned() };
        self.series.lock().unwrap_or_else(PoisonError::into_inner).entry(labels).or_default().clone()
    }

    pub(crate) fn refused(&self, status: u16) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
    }

    /// Everything, as Prometheus reads it.
    pub(crate) fn write(&self, ledger: (u64, u64)) -> String {
        let mut out = String::with_capacity(8 << 10);
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let labelled: Vec<(String, Arc<Series>)> = series
            .into_iter()
            .map(|(labels, series)| {
                let text = format!(
                    "model=\"{}\",provider=\"{}\",target=\"{}\"",
                    escaped(&labels.model),
                    escaped(&labels.provider),
                    escaped(&labels.target)
                );
                (text, series)
            })
            .collect();
        head(
            &mut out,
            "placet_requests_total",
            "counter",
            "Requests that a target was asked for, by how they ended; exchanges of agents with the provider placet.",
        );
        for (labels, series) in &labelled {
            for outcome in Outcome::ALL {
                let count = series.outcomes[outcome as usize].load(Ordering::Relaxed);
                let _ = writeln!(out, "placet_requests_total{{{labels},outcome=\"{}\"}} {count}", outcome.as_str());
            }
        }
        head(
            &mut out,
            "placet_tokens_total",
            "counter",
            "Tokens, in disjoint counters; reasoning is a part of output.",
        );
        for (labels, series) in &labelled {
            for (kind, counter) in
                ["input", "cache_read", "cache_write", "output", "reasoning"].iter().zip(&series.tokens)
            {
                let _ = writeln!(
                    out,
                    "placet_tokens_total{{{labels},kind=\"{kind}\"}} {}",
                    counter.load(Ordering::Relaxed)
                );
            }
        }
        head(&mut out, "placet_fallbacks_total", "counter", "Requests that were taken to the next target.");
        for (labels, series) in &labelled {
            let _ = writeln!(out, "placet_fallbacks_total{{{labels}}} {}", series.fallbacks.load(Ordering::Relaxed));
        }
        head(&mut out, "placet_first_byte_seconds", "histogram", "Time until an answer began.");
        for (labels, series) in &labelled {
            series.first.write(&mut out, "placet_first_byte_seconds", labels);
        }
        head(&mut out, "placet_request_seconds", "histogram", "Time until an answer ended.");
        for (labels, series) in &labelled {
            series.whole.write(&mut out, "placet_request_seconds", labels);
        }
        head(&mut out, "placet_refused_total", "counter", "Requests that were refused before a provider was asked.");
        for (status, count) in self.refused.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(out, "placet_refused_total{{status=\"{status}\"}} {count}");
        }
        head(&mut out, "placet_in_flight", "gauge", "Requests that are being answered.");
        let _ = writeln!(out, "placet_in_flight {}", self.in_flight.load(Ordering::Relaxed));
        head(&mut out, "placet_connections", "gauge", "Connections that are open.");
        let _ = writeln!(out, "placet_connections {}", self.connections.load(Ordering::Relaxed));
        head(&mut out, "placet_ledger_lines_total", "counter", "Lines of the ledger, by whether they are on disk.");
        let _ = writeln!(out, "placet_ledger_lines_total{{state=\"written\"}} {}", ledger.0);
        let _ = writeln!(out, "placet_ledger_lines_total{{state=\"dropped\"}} {}", ledger.1);
        out
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        let series = metrics.series("a\"b", "openai", "gpt");
        let usage = Usage { input: 3, output: 5, ..Usage::default() };
        series.note(Outcome::Whole, Some(&usage), Some(Duration::from_millis(7)), Duration::from_millis(30));
        metrics.series("a\"b", "openai", "gpt").note(Outcome::Cut, None, None, Duration::from_secs(400));
        metrics.refused(401);
        let text = metrics.write((4, 0));
        for line in [
            r#"placet_requests_total{model="a\"b",provider="openai",target="gpt",outcome="whole"} 1"#,
            r#"placet_tokens_total{model="a\"b",provider="openai",target="gpt",kind="output"} 5"#,
            r#"placet_first_byte_seconds_bucket{model="a\"b",provider="openai",target="gpt",le="0.005"} 0"#,
            r#"placet_first_byte_seconds_bucket{model="a\"b",provider="openai",target="gpt",le="0.01"} 1"#,
            r#"placet_request_seconds_bucket{model="a\"b",provider="openai",target="gpt",le="+Inf"} 2"#,
            r#"placet_request_seconds_sum{model="a\"b",provider="openai",target="gpt"} 400.03"#,
            r#"placet_refused_total{status="401"} 1"#,
            r#"placet_ledger_lines_total{state="written"} 4"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
