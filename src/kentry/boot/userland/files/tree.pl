# SPDX-License-Identifier: GPL-2.0-or-later
# Fills the repository in the folder where this runs with Perl's own files, which git's package needs
# anyway: 40 commits, each with a fortieth of the files, and a line more in those of the one before.
# With an argument, a file has at most so many bytes: git status reads none, and packing them all takes
# an emulated machine half a minute.
use strict;
use warnings;
use File::Find;

my ($most) = @ARGV;
my $commits = 40;
my @files;
my @folders = ("/usr/share/perl", "/usr/share/perl5", glob "/usr/lib/*/perl-base");
find({ no_chdir => 1, wanted => sub { push @files, $_ if -f && !-l } }, @folders);
@files = sort @files;
die "Perl has only ${\ scalar @files} files\n" unless @files >= 1000;

my $last = 0;
open my $import, "|-", "git -c core.compression=1 fast-import --quiet --depth=0" or die;
for my $number (1 .. $commits) {
	my $next = int(@files * $number / $commits);
	# Fixed times, a day apart, before the guest's clock starts.
	my $text = "Add files up to $files[$next - 1]\n";
	printf $import "commit refs/heads/main\ncommitter A U Thor <author\@example.org> %d +0000\n",
	    1577836800 - 86400 * (1 + $commits - $number);
	print $import "data ", length $text, "\n$text";
	my $first = $number > 1 ? int(@files * ($number - 2) / $commits) : 0;
	for my $index ($first .. $next - 1) {
		open my $file, "<:raw", $files[$index] or die;
		my $content = do { local $/; <$file> };
		$content = substr $content, 0, $most if $most;
		$content .= "# in commit $number\n" if $index < $last;
		print $import "M 100644 inline ", $files[$index] =~ s{^/}{}r, "\n";
		print $import "data ", length $content, "\n$content\n";
	}
	$last = $next;
}
close $import or die;
