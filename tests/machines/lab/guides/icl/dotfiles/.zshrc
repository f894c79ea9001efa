PS1='%(?.%F{green}%n :).%F{red}%n :( %?)%f %. $ '

export VISUAL=nvim
export EDITOR="$VISUAL"

HISTSIZE=1000
SAVEHIST=1000
HISTFILE=~/.zsh_history
setopt histignorealldups sharehistory

alias gs='git status'
alias vim=nvim
