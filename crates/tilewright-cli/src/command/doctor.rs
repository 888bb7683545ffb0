//! `tilewright doctor`: the machine as found.

use super::{Report, show};
use crate::engine::Runtime;
use serde_json::json;
use tilewright_cpu::cores::Cores;

pub fn doctor() -> Report {
    let cores = Cores::detect();
    let memory = show::Memory::detect();
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let bytes = |value: Option<u64>| value.map_or("unknown".to_string(), show::bytes);
    let quota = match cores.quota {
        Some(quota) => format!("cgroup quota of {quota}"),
        None => "no cgroup quota".to_string(),
    };
    let limit = match memory.limit {
        Some(limit) => format!("cgroup limit of {}", show::bytes(limit)),
        None => "no cgroup limit".to_string(),
    };
    let features = if cores.features.is_empty() { "none".to_string() } else { cores.features.join(" ") };
    let mut rows = vec![
        ["version", env!("CARGO_PKG_VERSION")].map(String::from).to_vec(),
        vec!["system".to_string(), system.clone()],
        vec![
            "processors".into(),
            format!("{} for this process (affinity counted, {quota})", cores.available),
        ],
        vec!["features".into(), features],
        vec![
            "memory".into(),
            format!("{}, {} available, {limit}", bytes(memory.total), bytes(memory.available)),
        ],
    ];
    for (k, runtime) in Runtime::ALL.into_iter().enumerate() {
        let name = if k == 0 { "runtimes" } else { "" };
        rows.push(vec![name.to_string(), format!("{runtime}: {}", runtime.doc())]);
    }
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": system,
        "processors": cores.available,
        "quota": cores.quota,
        "features": cores.features,
        "memory": { "total": memory.total, "available": memory.available, "limit": memory.limit },
        "runtimes": Runtime::ALL.map(Runtime::name),
    });
    Report::good(format!("tilewright\n{}", show::table(&rows, &[])), json)
}
