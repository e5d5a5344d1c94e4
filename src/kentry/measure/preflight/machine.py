# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks: what kind of machine it is."""

from __future__ import annotations

import re

from kentry.measure.preflight.facts import Facts
from kentry.measure.preflight.finding import Finding, note, shortened

# By what DMI says of the vendor and the product; those that say what they run guests with.
_VENDORS = (
    (re.compile(r"QEMU|.*\bKVM\b|Red Hat|RHEV|OpenStack|Nutanix", re.IGNORECASE), "KVM"),
    (re.compile(r"VMware", re.IGNORECASE), "VMware"),
    (re.compile(r"innotek|Oracle.*VirtualBox|.*VirtualBox", re.IGNORECASE), "VirtualBox"),
    (re.compile(r"Microsoft Corporation Virtual Machine", re.IGNORECASE), "Hyper-V"),
    (re.compile(r"Xen", re.IGNORECASE), "Xen"),
    (re.compile(r"Google Google Compute Engine", re.IGNORECASE), "KVM (Google)"),
    (re.compile(r"Amazon EC2(?!.*\.metal)", re.IGNORECASE), "Amazon EC2"),
    (re.compile(r"Parallels|Apple.*Virtual", re.IGNORECASE), "Apple or Parallels"),
    (re.compile(r"Bochs|Alibaba|DigitalOcean|Hetzner", re.IGNORECASE), "a cloud's"),
)
_GUEST_MODELS = re.compile(r"linux,dummy-virt|riscv-virtio,qemu|.*\bqemu\b", re.IGNORECASE)
_CONTAINERS = (
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
    ("/run/systemd/container", "systemd-nspawn"),
)
_GROUPS = re.compile(r"/(docker|kubepods|lxc|libpod|machine\.slice)\b")


def hypervisor(facts: Facts) -> str | None:
    """What the machine is a guest of, "unnamed" where it only says that it is one."""
    if kind := facts.text("/sys/hypervisor/type"):
        return kind
    flags = facts.processor.get("flags", "").split()  # x86 alone has this line
    if flags and "hypervisor" not in flags:
        return None
    vendor = facts.text("/sys/class/dmi/id/sys_vendor") or ""
    product = facts.text("/sys/class/dmi/id/product_name") or ""
    for pattern, name in _VENDORS:
        if pattern.match(f"{vendor} {product}") or pattern.match(product):
            return name
    if kind := facts.text("/proc/device-tree/hypervisor/compatible"):
        return kind.replace("linux,", "").upper() if kind == "linux,kvm" else kind
    if _GUEST_MODELS.match(facts.text("/proc/device-tree/model") or ""):
        return "QEMU"
    return "unnamed" if flags else None


def container(facts: Facts) -> str | None:
    """What it is a container of."""
    for path, name in _CONTAINERS:
        if facts.is_there(path):
            return facts.text("/run/systemd/container") or name
    match = _GROUPS.search(facts.files.get("/proc/self/cgroup", ""))
    return match[1] if match else None


def virtual(facts: Facts) -> Finding | None:
    """Is it a guest?"""
    name = hypervisor(facts)
    if name is None:
        return None
    of = "" if name == "unnamed" else f" ({shortened(name, 30)})"
    return note(
        "virtual",
        f"A virtual machine{of}: its host's other guests, and exits to the host, are in the times",
        "Measure on the host, or pin the guest's cpus there: virsh vcpupin GUEST 1 3",
    )


def contained(facts: Facts) -> Finding | None:
    """Is it a container?"""
    name = container(facts)
    if name is None:
        return None
    return note(
        "container",
        f"In a container ({shortened(name, 30)}): the host's other containers run beside it",
        "Measure outside it",
    )
