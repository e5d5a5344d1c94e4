# SPDX-License-Identifier: GPL-2.0-or-later
{
  description = "What it costs a program to enter and leave the Linux kernel";
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }: {
    packages = nixpkgs.lib.genAttrs [ "aarch64-linux" "x86_64-linux" ] (system:
      let
        pkgs = nixpkgs.legacyPackages.${system};
        python = pkgs.python3Packages;
      in {
        default = python.buildPythonApplication {
          pname = "kentry";
          version = "0.1.0";
          pyproject = true;
          src = self;
          build-system = [ python.hatchling ];
          nativeBuildInputs = map (cross: cross.buildPackages.gcc)
            (with pkgs.pkgsCross; [ aarch64-multiplatform gnu64 riscv64 ]);
          CROSS_arm64 = "aarch64-unknown-linux-gnu-";
          CROSS_riscv64 = "riscv64-unknown-linux-gnu-";
          CROSS_x86_64 = "x86_64-unknown-linux-gnu-";
          dependencies = with python; [
            argcomplete capstone filelock jinja2 kconfiglib msgspec numpy pyelftools python-debian
            rich rpmfile tomli-w tomlkit tuxmake urllib3 zstandard
          ];
          # The probes are other architectures' programs; kentry reads the symbols of the floors.
          dontStrip = true;
          dontPatchELF = true;
          makeWrapperArgs = [ "--suffix PATH : ${pkgs.lib.makeBinPath [ pkgs.bubblewrap pkgs.qemu ]}" ];
        };
      });
  };
}
