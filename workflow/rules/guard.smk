# Before Snakemake reads the config file: its own message for broken YAML names no file of the user's.
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from breakeven.head.hooks import check_config_files

check_config_files(workflow)
