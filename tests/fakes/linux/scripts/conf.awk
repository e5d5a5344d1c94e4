# SPDX-License-Identifier: GPL-2.0-or-later
# awk -f conf.awk KCONFIG... CONFIG: a .config with what CONFIG sets, as far as "config",
# "depends on NAME", "select NAME" and "default y" in the Kconfig files go.

FILENAME ~ /Kconfig$/ && $1 == "config" { name = $2; order[++count] = name }
FILENAME ~ /Kconfig$/ && $1 == "depends" { needs[name] = $3 }
FILENAME ~ /Kconfig$/ && $1 == "select" { selects[name] = $2 }
FILENAME ~ /Kconfig$/ && $1 == "default" { given[name] = $2 }

/^CONFIG_[A-Za-z0-9_]+=/ {
	at = index($0, "=")
	asked[substr($0, 8, at - 8)] = substr($0, at + 1)
}
/^# CONFIG_[A-Za-z0-9_]+ is not set$/ { asked[substr($2, 8)] = "n" }

END {
	for (round = 0; round <= count; round++) {
		for (i = 1; i <= count; i++) {
			name = order[i]
			value = name in asked ? asked[name] : defaults && name in given ? given[name] : "n"
			if (name in needs && got[needs[name]] != "y")
				value = "n"
			if (name in forced)
				value = "y"
			got[name] = value
			if (value == "y" && name in selects)
				forced[selects[name]] = 1
		}
	}
	print "# Automatically generated file; DO NOT EDIT."
	for (i = 1; i <= count; i++) {
		if (got[order[i]] == "n")
			print "# CONFIG_" order[i] " is not set"
		else
			print "CONFIG_" order[i] "=" got[order[i]]
	}
}
