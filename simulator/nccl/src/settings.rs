//! Settings of NCCL and the machine from the environment: NCCL's variables, parsed as NCCL does,
//! and the simulator's for properties that NCCL would detect.

use crate::config::Config;
use crate::result::{NcclResult, cuda};
use gpumem_nccl_model::{Buffers, Chunks, Level, Limits, Setup, Version};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::Out;
use gpumem_sim_machine::parse_size;
use std::io::Write;
use std::sync::OnceLock;

/// The version of PyTorch 2.15's wheel.
const VERSION: Version = Version::two(30, 7);

/// Messages up to this size are delivered.
const COPY_BYTES: u64 = 1 << 20;

/// The settings of a process.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// GPUMEM_SIM_NCCL_VERSION.
    pub version: Version,
    /// GPUMEM_SIM_NCCL_MODEL; `None` for no memory at all.
    pub level: Option<Level>,
    /// GPUMEM_SIM_NCCL_LOCAL, LOCAL_WORLD_SIZE.
    local: Option<u64>,
    /// GPUMEM_SIM_NCCL_NVSWITCH.
    nvswitch: Option<bool>,
    /// GPUMEM_SIM_NCCL_CHANNELS.
    channels: Option<u64>,
    /// GPUMEM_SIM_NCCL_KERNEL_BYTES.
    pub kernel_bytes: Option<u64>,
    /// GPUMEM_SIM_NCCL_COPY_BYTES.
    pub copy_bytes: u64,
    /// GPUMEM_SIM_NCCL_SPLIT.
    pub split: Option<u64>,
    /// NCCL_CUMEM_ENABLE.
    cumem: Option<i64>,
    /// NCCL_RUNTIME_CONNECT.
    runtime_connect: Option<i64>,
    /// NCCL_NVLS_ENABLE.
    nvls: bool,
    /// NCCL_NVLS_CHUNKSIZE.
    nvls_chunk: Option<u64>,
    /// NCCL_P2P_DISABLE.
    peers: bool,
    /// NCCL_NET_GDR_LEVEL=LOC or 0, NCCL_NET=Socket: no card reads device memory.
    direct: bool,
    limits: Limits,
    buffers: Buffers,
    chunks: Chunks,
}

/// Reads variables, and collects a message for each invalid one.
struct Reader<L> {
    lookup: L,
    complaints: Vec<String>,
}

impl<L: Fn(&str) -> Option<String>> Reader<L> {
    fn text(&self, name: &str) -> Option<String> {
        let text = (self.lookup)(name)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn get<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(&text);
        if value.is_none() {
            self.complaints
                .push(format!("{name}={text} cannot be read; using the default"));
        }
        value
    }

    /// A number in NCCL's syntax; an invalid one means the default.
    fn number(&mut self, name: &str) -> Option<i64> {
        self.get(name, |text| match text.strip_prefix("0x") {
            Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16).ok(),
            None => text.parse().ok(),
        })
    }

    /// A count; NCCL treats -2 as the default.
    fn count(&mut self, names: &[&str]) -> Option<u64> {
        names
            .iter()
            .find_map(|name| u64::try_from(self.number(name)?).ok())
    }
}

fn size(text: &str) -> Option<u64> {
    parse_size(text).ok()
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn level(text: &str) -> Option<Option<Level>> {
    match text {
        "none" => Some(None),
        "low" => Some(Some(Level::Low)),
        "likely" => Some(Some(Level::Likely)),
        "high" => Some(Some(Level::High)),
        _ => None,
    }
}

fn yes(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Whether GPUs of this compute capability are used with an NVSwitch: A100, H100, H200, B200, B300
/// and similar ones. Such a card in a PCIe slot is assumed to have one, too.
fn may_have_a_switch(capability: u32) -> bool {
    matches!(capability, 80 | 90 | 100 | 103)
}

impl Settings {
    /// The settings from the variables, and messages about invalid ones.
    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut reader = Reader {
            lookup,
            complaints: Vec::new(),
        };
        let local = reader.get("GPUMEM_SIM_NCCL_LOCAL", positive);
        let launched = reader
            .text("LOCAL_WORLD_SIZE")
            .as_deref()
            .and_then(positive);
        let no_direct = matches!(
            reader.text("NCCL_NET_GDR_LEVEL").as_deref(),
            Some("LOC" | "0")
        ) || reader
            .text("NCCL_NET")
            .is_some_and(|name| name.eq_ignore_ascii_case("socket"));
        let (defaults, chunks) = (Buffers::default(), Chunks::default());
        let bytes = |set: Option<u64>, default| set.filter(|bytes| *bytes > 0).unwrap_or(default);
        let settings = Self {
            version: reader
                .get("GPUMEM_SIM_NCCL_VERSION", Version::parse)
                .unwrap_or(VERSION),
            level: reader
                .get("GPUMEM_SIM_NCCL_MODEL", level)
                .unwrap_or(Some(Level::Likely)),
            local: local.or(launched),
            nvswitch: reader.get("GPUMEM_SIM_NCCL_NVSWITCH", yes),
            channels: reader.get("GPUMEM_SIM_NCCL_CHANNELS", positive),
            kernel_bytes: reader.get("GPUMEM_SIM_NCCL_KERNEL_BYTES", size),
            copy_bytes: reader
                .get("GPUMEM_SIM_NCCL_COPY_BYTES", size)
                .unwrap_or(COPY_BYTES),
            split: reader.get("GPUMEM_SIM_NCCL_SPLIT", positive),
            cumem: reader.number("NCCL_CUMEM_ENABLE"),
            runtime_connect: reader.number("NCCL_RUNTIME_CONNECT"),
            nvls: reader.number("NCCL_NVLS_ENABLE") != Some(0),
            nvls_chunk: reader.count(&["NCCL_NVLS_CHUNKSIZE"]),
            peers: reader.number("NCCL_P2P_DISABLE").unwrap_or(0) != 1,
            direct: !no_direct,
            limits: Limits {
                least: reader.count(&["NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS"]),
                most: reader.count(&["NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS"]),
                least_p2p: reader.count(&["NCCL_MIN_P2P_NCHANNELS"]),
                most_p2p: reader.count(&["NCCL_MAX_P2P_NCHANNELS"]),
                per_peer: reader.count(&["NCCL_NCHANNELS_PER_PEER"]),
                nvls: reader.count(&["NCCL_NVLS_NCHANNELS"]),
            },
            buffers: Buffers {
                ll: bytes(reader.count(&["NCCL_LL_BUFFSIZE"]), defaults.ll),
                ll128: bytes(reader.count(&["NCCL_LL128_BUFFSIZE"]), defaults.ll128),
                simple: bytes(reader.count(&["NCCL_BUFFSIZE"]), defaults.simple),
            },
            chunks: Chunks {
                nvlink: bytes(reader.count(&["NCCL_P2P_NVL_CHUNKSIZE"]), chunks.nvlink),
                pci: bytes(reader.count(&["NCCL_P2P_PCI_CHUNKSIZE"]), chunks.pci),
                network: bytes(reader.count(&["NCCL_P2P_NET_CHUNKSIZE"]), chunks.network),
            },
        };
        (settings, reader.complaints)
    }

    /// The settings of this process, read once.
    pub fn get() -> &'static Self {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(|| {
            let (settings, complaints) = Self::from_lookup(|name| std::env::var(name).ok());
            for complaint in complaints {
                // Without a stderr the line is lost and the default still applies.
                let _ = writeln!(std::io::stderr(), "gpumem simulator: {complaint}");
            }
            settings
        })
    }

    /// A communicator of `world` ranks like this one, on `device`. `here` is the number of ranks
    /// that are known to be on this node.
    pub fn setup(
        &self,
        world: u64,
        here: Option<u64>,
        device: i32,
        config: &Config,
    ) -> Result<Setup, NcclResult> {
        let (mut driver, mut devices, mut capability) = (0, 0, [0; 2]);
        cuda(cu::cuDriverGetVersion(Out::to(&mut driver)))?;
        cuda(cu::cuDeviceGetCount(Out::to(&mut devices)))?;
        let [major, minor] = &mut capability;
        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
        cuda(cu::cuDeviceGetAttribute(Out::to(major), 75, device))?;
        cuda(cu::cuDeviceGetAttribute(Out::to(minor), 76, device))?;
        let capability = u32::try_from(*major * 10 + *minor).unwrap_or(0);
        let devices = u64::try_from(devices).unwrap_or(1);
        let local = here.or(self.local).unwrap_or(devices);
        Ok(self.with_machine(world, local, capability, driver, config))
    }

    fn with_machine(
        &self,
        world: u64,
        local: u64,
        capability: u32,
        driver: i32,
        config: &Config,
    ) -> Setup {
        let nvswitch = self.nvswitch.unwrap_or(may_have_a_switch(capability));
        let mut setup = Setup::new(self.version, world, local, capability, nvswitch);
        let driver = u32::try_from(driver).unwrap_or(0);
        setup.cumem = self.version.uses_cumem(self.cumem, driver);
        setup.late = self
            .version
            .connects_late(setup.cumem, self.runtime_connect);
        setup.level = self.level.unwrap_or_default();
        setup.channels = self.channels;
        setup.peers = self.peers;
        setup.direct = self.direct;
        setup.nvls = self.nvls;
        setup.nvls_chunk = self.nvls_chunk.unwrap_or(setup.nvls_chunk);
        setup.buffers = self.buffers;
        setup.chunks = self.chunks;
        // The environment overrides the configuration.
        setup.limits = Limits {
            least: self.limits.least.or(config.least),
            most: self.limits.most.or(config.most),
            nvls: self.limits.nvls.or(config.nvls),
            per_peer: match setup.nodes() {
                1 => self.limits.per_peer,
                _ => self.limits.per_peer.or(config.per_net_peer),
            },
            ..self.limits
        };
        setup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &[(&str, &str)]) -> (Settings, Vec<String>) {
        Settings::from_lookup(|name| {
            let found = settings.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn eight(settings: &[(&str, &str)]) -> Setup {
        of(settings)
            .0
            .with_machine(8, 8, 90, 13_020, &Config::default())
    }

    #[test]
    fn defaults_are_those_of_pytorchs_nccl() {
        let (settings, complaints) = of(&[]);
        assert_eq!((settings.version, complaints.len()), (VERSION, 0));
        let setup = eight(&[]);
        assert!(setup.cumem && setup.late && setup.nvls && setup.peers && setup.direct);
        assert!(setup.nvswitch);
        assert_eq!((setup.channels(), setup.buffers.simple), (24, 4_194_304));
    }

    #[test]
    fn a_switch_is_assumed_where_cards_have_one() {
        let at = |capability| {
            let settings = of(&[]).0;
            settings
                .with_machine(8, 8, capability, 13_020, &Config::default())
                .nvswitch
        };
        assert_eq!(
            [75, 80, 86, 89, 90, 100, 120].map(at),
            [false, true, false, false, true, true, false]
        );
        assert!(!eight(&[("GPUMEM_SIM_NCCL_NVSWITCH", "0")]).nvswitch);
    }

    #[test]
    fn variables_of_nccl_are_read_as_nccl_reads_them() {
        let setup = eight(&[
            ("NCCL_CUMEM_ENABLE", "0"),
            ("NCCL_NVLS_ENABLE", "0"),
            ("NCCL_BUFFSIZE", "8388608"),
            ("NCCL_MAX_NCHANNELS", "4"),
            ("NCCL_P2P_DISABLE", "1"),
            ("NCCL_NET", "Socket"),
        ]);
        assert!(!setup.cumem && !setup.late && !setup.nvls && !setup.peers && !setup.direct);
        assert_eq!((setup.channels(), setup.buffers.simple), (4, 8 << 20));
        assert_eq!(eight(&[("NCCL_MAX_CTAS", "-2")]).channels(), 24);
    }

    #[test]
    fn a_configuration_limits_channels_unless_the_environment_does() {
        let config = Config {
            most: Some(8),
            ..Config::default()
        };
        let with = |settings: &[_]| {
            of(settings)
                .0
                .with_machine(8, 8, 90, 13_020, &config)
                .channels()
        };
        assert_eq!(with(&[]), 8);
        assert_eq!(with(&[("NCCL_MAX_CTAS", "12")]), 12);
    }

    #[test]
    fn ranks_of_a_node_are_set_or_launched() {
        let local = |settings: &[_]| of(settings).0.local;
        assert_eq!(local(&[("LOCAL_WORLD_SIZE", "4")]), Some(4));
        let both = [("LOCAL_WORLD_SIZE", "4"), ("GPUMEM_SIM_NCCL_LOCAL", "8")];
        assert_eq!(local(&both), Some(8));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let (settings, complaints) = of(&[
            ("GPUMEM_SIM_NCCL_VERSION", "3.0"),
            ("GPUMEM_SIM_NCCL_MODEL", "some"),
        ]);
        assert_eq!(
            (settings.version, settings.level),
            (VERSION, Some(Level::Likely))
        );
        assert_eq!(complaints.len(), 2);
        assert_eq!(of(&[("GPUMEM_SIM_NCCL_MODEL", "none")]).0.level, None);
    }
}
