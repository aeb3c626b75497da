# A descriptor of the shell is used after its close.
exec 5</dev/null
exec 5<&-
{ read -r line <&5; } 2>/dev/null
exit 0
