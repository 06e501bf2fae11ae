//! The flags of `ceiling`.

use clap::Args;

use super::units::Time;
use super::{PlaceArgs, check_block};
use crate::ceiling::{Layout, Many, Method, Shape};
use crate::size::Size;

#[derive(Debug, Clone, Args)]
pub(crate) struct CeilingArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Bytes of each measurement, at most 16,384 requests of it
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub(crate) total: Size,

    /// Block sizes to try
    #[arg(
        long,
        value_name = "SIZE,..",
        value_delimiter = ',',
        default_value = "4KiB,64KiB,256KiB,1MiB"
    )]
    pub(crate) blocks: Vec<Size>,

    /// Queue depths to try
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,4,16",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) depths: Vec<u16>,

    /// Rings, each a thread with a file of its own
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) rings: u16,

    /// Rounds, each all sizes and depths once; figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Synced writes a round, by each method
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) synced_samples: u32,

    /// Block sizes of synced writes to try, with many in flight
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', default_value = "4KiB,64KiB")]
    pub(crate) synced_blocks: Vec<Size>,

    /// Queue depths of them
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,8,64",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) synced_depths: Vec<u16>,

    /// Time of each of them in a round, for each method; 0s leaves them out
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub(crate) synced_time: Time,
}

impl CeilingArgs {
    /// What clap cannot see.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.total.0 == 0 {
            return Err("--total must be more than 0".to_owned());
        }
        self.blocks.iter().try_for_each(|block| check_block("--blocks", *block).map(drop))?;
        let synced = self.synced_blocks.iter();
        synced.clone().try_for_each(|block| check_block("--synced-blocks", *block).map(drop))
    }

    /// Synced writes of every block size at every depth by every method, in the order they are
    /// shown; one file for all that are in flight.
    pub(crate) fn synced(&self) -> Vec<Many> {
        if self.synced_time.0.is_zero() {
            return Vec::new();
        }
        let mut all = Vec::new();
        for block in &self.synced_blocks {
            let block = usize::try_from(block.0).expect("checked to be at most 1 GiB");
            for depth in self.synced_depths.iter().map(|depth| usize::from(*depth)) {
                for method in [Method::Dsync, Method::LinkedFdatasync] {
                    all.push(Many { layout: Layout::Regions, method, block, depth });
                }
            }
        }
        all
    }

    /// Every block size at every depth, in the order they are shown.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let rings = usize::from(self.rings);
        let depths = || self.depths.iter().map(|depth| usize::from(*depth));
        let one = |block: &Size| {
            let block = usize::try_from(block.0).expect("checked to be at most 1 GiB");
            depths().map(move |depth| Shape { block, depth, rings }).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Command};

    #[test]
    fn the_sweep_is_every_block_at_every_depth() {
        let words = ["corelog-bench", "ceiling", "--blocks", "4KiB,1MiB", "--depths", "1,8"];
        let cli = Cli::try_parse_from(words).unwrap();
        let Command::Ceiling(args) = cli.command else { unreachable!("ceiling was asked for") };
        args.check().unwrap();
        let shapes: Vec<_> = args.shapes().iter().map(|shape| (shape.block, shape.depth)).collect();
        assert_eq!(shapes, [(4096, 1), (4096, 8), (1 << 20, 1), (1 << 20, 8)]);
    }
}
